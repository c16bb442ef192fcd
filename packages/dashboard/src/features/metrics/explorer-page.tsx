import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Link2, Pause, Plus } from "lucide-react";
import { query } from "../../api/queries.ts";
import { EXPLORER_RANGES, type ExplorerRange, type ExplorerSearch, type Panel, PANELS_MAX } from "../../search.ts";
import {
  Button,
  copy,
  durationText,
  EmptyState,
  keepView,
  notifyDone,
  notifyError,
  PageHeader,
  QueryState,
  Segments,
  TimeInput,
  useNow,
  useOutage,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { defaultName, isFixed, type Period, periodOf } from "./explorer.ts";
import { MetricPanel } from "./metric-panel.tsx";

const route = getRouteApi("/app/explore");
/** A zoom shows at least this period: the agent samples every 10 s. */
const ZOOM_SECONDS_MIN = 60;

const RANGE_TEXTS: Record<ExplorerRange, string> = { "1h": "hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const RANGES = EXPLORER_RANGES.map((value) => ({
  value,
  label: value.replace(/(\d+)/, "$1 "),
  title: `Last ${RANGE_TEXTS[value]}`,
}));

type Change = (part: ExplorerSearch, is_step?: boolean) => void;

/** Metrics of many robots as charts. The URL contains all that is chosen. */
export function ExplorerPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const period = periodOf(search, useNow());
  const names = useQuery(query("listMetrics"));
  // Back undoes a zoom, but not each change of a query.
  const change: Change = (part, is_step = false) =>
    void navigate({ search: (before: ExplorerSearch) => ({ ...before, ...part }), state: keepView, replace: !is_step });
  const panels = search.panels ?? [{}];
  return (
    <>
      <PageHeader
        title="Metrics"
        label="Metrics"
        meta={names.data === undefined ? undefined : <Refresh search={search} period={period} onChange={change} />}
        actions={
          <>
            <ViewsMenu page="metrics" search={search} />
            <PageActions panels={panels} names={names.data?.data.names ?? []} period={period} onChange={change} />
          </>
        }
      />
      <PeriodFields search={search} period={period} onChange={change} />
      <QueryState query={names} rows={6}>
        {({ data }) =>
          data.names.length === 0 && search.panels === undefined ? (
            <NoMetrics />
          ) : (
            <Panels panels={panels} names={data.names} period={period} onChange={change} />
          )
        }
      </QueryState>
    </>
  );
}

interface PageProps {
  panels: readonly Panel[];
  period: Period;
  onChange: Change;
}

function Panels({ panels, names, period, onChange }: PageProps & { names: readonly string[] }) {
  const put = (next: Panel[]): void => onChange({ panels: next });
  const zoom = (from: number, until: number): void => {
    const middle = (from + until) / 2;
    const half = Math.max(until - from, ZOOM_SECONDS_MIN) / 2;
    const iso = (seconds: number): string => new Date(Math.round(seconds) * 1_000).toISOString();
    onChange({ from: iso(middle - half), to: iso(Math.min(middle + half, Date.now() / 1_000 + ZOOM_SECONDS_MIN)) }, true);
  };
  return (
    <div className={panels.length > 1 ? "grid gap-3 xl:grid-cols-2" : "grid gap-3"}>
      {panels.map((panel, at) => (
        <MetricPanel
          key={at}
          panel={panel}
          number={at + 1}
          name={panel.name ?? defaultName(names)}
          names={names}
          period={period}
          onChange={(part) => put(panels.with(at, { ...panel, ...part }))}
          onZoom={zoom}
          onDuplicate={panels.length < PANELS_MAX ? () => put(panels.toSpliced(at, 0, panel)) : undefined}
          onRemove={panels.length > 1 ? () => put(panels.toSpliced(at, 1)) : undefined}
        />
      ))}
    </div>
  );
}

function PageActions({ panels, names, period, onChange }: PageProps & { names: readonly string[] }) {
  const shown = new Set(panels.map(({ name = defaultName(names) }) => name));
  /** A metric that no panel shows, with the scope and groups of the last panel. */
  const next: Panel = { ...panels.at(-1), name: names.find((name) => !shown.has(name)), only: undefined };
  return (
    <>
      <Button icon={Link2} title="The link has the period that is shown now" onClick={() => copyLink(period)}>
        Copy link
      </Button>
      <Button
        look="primary"
        icon={Plus}
        disabled={panels.length >= PANELS_MAX || names.length === 0}
        title={panels.length >= PANELS_MAX ? `A page has at most ${PANELS_MAX} panels` : undefined}
        onClick={() => onChange({ panels: [...panels, next] })}
      >
        Add panel
      </Button>
    </>
  );
}

/** Copies the address of the page with the period that is shown now, so that others see the same. */
function copyLink({ since, until }: Period): void {
  const link = new URL(window.location.href);
  link.searchParams.delete("range");
  link.searchParams.set("from", since);
  link.searchParams.set("to", until);
  void copy(link.href).then(() => notifyDone("Link copied"), notifyError);
}

/** Shows whether the page follows the time, and a button that stops it. */
function Refresh({ search, period, onChange }: { search: ExplorerSearch; period: Period; onChange: Change }) {
  const is_outage = useOutage() !== undefined;
  if (isFixed(search))
    return (
      <>
        <span>Fixed period</span>
        <button type="button" className="min-h-6 text-accent underline" onClick={() => onChange({ from: undefined, to: undefined })}>
          Show the last {RANGE_TEXTS[search.range ?? "1h"]}
        </button>
      </>
    );
  return (
    <>
      <span>{is_outage ? "Not refreshed: the server is not responding" : `Refreshed every ${durationText(period.step_seconds)}`}</span>
      <Button className="!h-7 !px-2 text-xs" look="quiet" icon={Pause} onClick={() => onChange({ from: period.since, to: period.until })}>
        Pause
      </Button>
    </>
  );
}

function PeriodFields({ search, period, onChange }: { search: ExplorerSearch; period: Period; onChange: Change }) {
  const { range = "1h", from, to } = search;
  // A time alone is no period: the other one is that of the period which is shown.
  const put = (begin: string | undefined, end: string | undefined): void =>
    onChange(begin === undefined || end === undefined ? { from: undefined, to: undefined } : { from: begin, to: end });
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="group" aria-label="Period">
      <Segments<ExplorerRange | "">
        label="Range"
        options={RANGES}
        value={isFixed(search) ? "" : range}
        onChange={(to_range) => onChange({ range: to_range === "" ? undefined : to_range, from: undefined, to: undefined })}
      />
      <TimeInput label="From" value={from} onValue={(at) => put(at, to ?? period.until)} />
      <TimeInput label="To" value={to} onValue={(at) => put(from ?? period.since, at)} />
      {from !== undefined && to !== undefined && from >= to && <p className="text-bad">From must be before To.</p>}
    </div>
  );
}

const NoMetrics = () => (
  <EmptyState
    title="No metrics yet"
    command='curl --unix-socket $ROAMFLEET_SOCKET http://robot/v1/samples -d &apos;{"name":"picks_total","value":1}&apos;'
  >
    <p>
      Robots send values of the system every 15 minutes without any setting. Values of your programs are read from a port that serves
      Prometheus metrics, from ROS topics, or from the agent's socket, as below.
    </p>
    <p className="mt-2">
      See “Metrics of apps” in the guide: <code className="font-mono text-xs">docs/guide/app-metrics.md</code>
    </p>
  </EmptyState>
);
