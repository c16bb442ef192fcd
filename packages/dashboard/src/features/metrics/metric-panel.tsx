import { isCounter } from "@roamfleet/protocol/metric-values";
import { ApiError } from "@roamfleet/sdk/browser";
import type { MetricAnswer } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { BellPlus, Copy, Trash2 } from "lucide-react";
import { Suspense, useMemo, useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import type { Panel } from "../../search.ts";
import {
  Card,
  copyAsRf,
  counted,
  EmptyState,
  isNotFound,
  lazyPart,
  LinkButton,
  Menu,
  QueryState,
  shellLine,
  Skeleton,
  Text,
  Time,
  toLocalInput,
  useOutage,
} from "../../ui/index.ts";
import { valueText } from "../robots/health-series.ts";
import { chartOf, type Chart, panelText, type Period, queryOf } from "./explorer.ts";
import { LegendTable } from "./legend-table.tsx";
import { PanelFields } from "./panel-fields.tsx";
import { EVENTS_MAX, type Markers, useMarkers } from "./use-markers.ts";

// The chart library is a separate chunk, so that the page appears first.
const LineChart = lazyPart(async () => (await import("./line-chart.tsx")).LineChart);

export interface MetricPanelProps {
  panel: Panel;
  /** Position on the page, counted from 1. */
  number: number;
  /** The metric that is shown. */
  name: string;
  names: readonly string[];
  period: Period;
  /** Sets parts of the panel; removes those that are undefined. */
  onChange: (part: Panel) => void;
  onZoom: (from: number, until: number) => void;
  /** Undefined: the page has the maximum of panels. */
  onDuplicate: (() => void) | undefined;
  /** Undefined: the page has no other panel. */
  onRemove: (() => void) | undefined;
}

/** A chart with its query, its legend and what happened in its period. */
export function MetricPanel(props: MetricPanelProps) {
  const { panel, number, name, names, period, onChange } = props;
  const asked = queryOf(panel, name, period);
  const answer = useQuery({
    ...query("queryMetrics", { query: asked }),
    enabled: name !== "",
    // While the period moves, the lines stay. A new query begins without those of the old one.
    placeholderData: (before: { data: MetricAnswer } | undefined, of) =>
      isSameExceptPeriod((of?.queryKey[1] as { query?: Asked } | undefined)?.query, asked) ? before : undefined,
  });
  // Until the answer arrives, only the name is known. Parts of histograms are counters, too, and the answer states it.
  const is_counter = answer.data?.data.counter ?? isCounter(name);
  return (
    <Card className="!p-3">
      <section aria-label={`Panel ${number}`}>
        <div className="mb-2 flex items-start justify-between gap-2">
          <div className="min-w-0">
            <h2 className="font-semibold">
              <Text>{name}</Text>
            </h2>
            <p className="text-xs text-muted">{panelText(panel, is_counter)}</p>
          </div>
          <PanelMenu {...props} is_counter={is_counter} />
        </div>
        <PanelFields panel={panel} name={name} names={names} onChange={onChange} />
        {isRefused(answer.error) && !answer.isPlaceholderData ? (
          <EmptyState is_error title="The query was refused">
            {answer.error.message}
          </EmptyState>
        ) : isNotFound(answer.error) ? (
          <EmptyState is_error title="Site, fleet or robot not found">
            Choose another one. It may have been deleted, or you may not have access to it.
          </EmptyState>
        ) : (
          <QueryState query={answer} rows={6}>
            {({ data }) => <Found key={`${name} ${panel.group_by ?? ""}`} {...props} answer={data} />}
          </QueryState>
        )}
      </section>
    </Card>
  );
}

type Asked = Partial<ReturnType<typeof queryOf>>;

const isSameExceptPeriod = (before: Asked | undefined, asked: Asked): boolean => {
  const rest = ({ since: _since, until: _until, points: _points, ...others }: Asked): string =>
    JSON.stringify(Object.entries(others).toSorted());
  return before !== undefined && rest(before) === rest(asked);
};

/** Whether the API refuses the query, such as one of too many robots. Its message states what to choose. */
const isRefused = (error: Error | null): error is ApiError => error instanceof ApiError && error.status === 400;

function PanelMenu({ panel, name, is_counter, period, onDuplicate, onRemove }: MetricPanelProps & { is_counter: boolean }) {
  const may_change = useMay("operator");
  const navigate = useNavigate();
  const place = panel.fleet_id ?? panel.site_id;
  const condition = is_counter ? "metric_rate_above" : "metric_above";
  return (
    <Menu
      label={`Actions for ${name}`}
      entries={[
        may_change && {
          label: "Create alert rule…",
          icon: BellPlus,
          onSelect: () => void navigate({ to: "/alert-rules", search: { metric: name, condition, place } }),
        },
        onDuplicate !== undefined && { label: "Duplicate", icon: Copy, onSelect: onDuplicate },
        copyAsRf(queryLine(panel, name, period)),
        onRemove !== undefined && { label: "Remove", icon: Trash2, danger: true, onSelect: onRemove },
      ]}
    />
  );
}

/** Returns the `rf` command that prints what the panel shows. */
const queryLine = ({ site_id, fleet_id, robot_id, label, group_by, aggregation }: Panel, name: string, { since, until }: Period): string =>
  shellLine("rf", "metrics", "query", name, {
    by: group_by,
    aggregation,
    site: site_id,
    fleet: fleet_id,
    robot: robot_id,
    label: label?.replace(":", "="),
    since,
    until,
  });

function Found({ answer, panel, number, name, names, period, onChange, onZoom }: MetricPanelProps & { answer: MetricAnswer }) {
  const chart = useMemo(() => chartOf(answer, panel), [answer, panel]);
  const events = useMarkers(panel, period);
  const [lit, setLit] = useState<string>();
  const [picked, setPicked] = useState<Picked>();
  const outage = useOutage();
  const only = chart.lines.some(({ key }) => key === panel.only) ? panel.only : undefined;
  const shown = useMemo(() => chart.lines.filter(({ key }) => only === undefined || key === only), [chart, only]);
  if (chart.lines.length === 0) return <NoSamples is_known={names.includes(name)} has_names={names.length > 0} />;
  const title = chart.unit === "" ? name : `${name}, ${chart.unit}`;
  return (
    <>
      <p className="text-xs text-muted">{chart.unit}</p>
      <Suspense fallback={<Skeleton rows={6} />}>
        <LineChart
          title={title}
          unit={chart.unit}
          max={chart.max}
          times={chart.times}
          lines={shown}
          from={Date.parse(answer.since) / 1_000}
          until={Date.parse(answer.until) / 1_000}
          markers={events.markers}
          lit={lit}
          onLit={setLit}
          onZoom={onZoom}
          onPick={(at, key) => setPicked({ seconds: chart.times[at] ?? 0, key: key ?? (shown.length === 1 ? shown[0]?.key : undefined) })}
        />
      </Suspense>
      {outage !== undefined && (
        <p role="status" className="text-xs text-warn">
          The server has not responded since <Time at={new Date(outage.since_ms).toISOString()} exact />. Newer samples are missing.
        </p>
      )}
      {picked !== undefined && picked.seconds * 1_000 >= Date.parse(answer.since) && (
        <PickedPoint chart={chart} picked={picked} onClose={() => setPicked(undefined)} />
      )}
      <MarkedEvents {...events} />
      <LegendTable
        label={`Panel ${number}: values of ${title}`}
        lines={chart.lines}
        unit={chart.unit}
        sort={panel.sort ?? "mean"}
        onSort={(sort) => onChange({ sort })}
        only={only}
        onOnly={(key) => onChange({ only: key })}
        lit={lit}
        onLit={setLit}
      />
      {chart.group_count > chart.lines.length && (
        <p className="mt-1 text-xs text-muted">{`${chart.lines.length} of ${chart.group_count} groups shown`}</p>
      )}
    </>
  );
}

const SENT = "By default, robots send their samples every 15 minutes. A robot that was offline sends them when it reconnects.";

function NoSamples({ is_known, has_names }: { is_known: boolean; has_names: boolean }) {
  if (!has_names) return <EmptyState title="No metrics yet">{SENT}</EmptyState>;
  return (
    <EmptyState title="No samples in this period">
      {is_known ? "Choose a longer period or another scope." : "Choose another metric or a longer period."} {SENT}
    </EmptyState>
  );
}

interface Picked {
  seconds: number;
  key: string | undefined;
}

/** Around a point, the logs of this many seconds before and after it are shown. */
const AROUND_SECONDS = 300;

/** The point that the user selected: the value of a line, and the logs and timeline of its robot at that time. */
function PickedPoint({ chart, picked: { seconds, key }, onClose }: { chart: Chart; picked: Picked; onClose: () => void }) {
  const line = chart.lines.find((one) => one.key === key);
  const at = chart.times.findIndex((time) => time >= seconds);
  const iso = (offset: number): string => new Date((seconds + offset) * 1_000).toISOString();
  // YYYY-MM-DD in the browser's time zone.
  const day = toLocalInput(iso(0)).slice(0, 10);
  return (
    <div role="status" className="my-2 flex flex-wrap items-center gap-2 rounded-md bg-sunken px-2 py-1.5 text-xs">
      {line === undefined ? (
        <span>Select a point of a line to see its value.</span>
      ) : (
        <span>
          <Text>{line.label}</Text> at <Time at={iso(0)} exact />: <strong>{valueText(line.values[at], chart.unit)}</strong>
        </span>
      )}
      {line?.robot_id !== undefined && (
        <>
          <LinkButton
            className="!h-7 text-xs"
            to="/robots/$id/logs"
            params={{ id: line.robot_id }}
            search={{ since: iso(-AROUND_SECONDS), until: iso(AROUND_SECONDS) }}
          >
            Logs at that time
          </LinkButton>
          <LinkButton className="!h-7 text-xs" to="/robots/$id/timeline" params={{ id: line.robot_id }} search={{ from: day, to: day }}>
            Timeline of that day
          </LinkButton>
        </>
      )}
      <button type="button" className="min-h-6 px-1 underline" onClick={onClose}>
        Close
      </button>
    </div>
  );
}

/** The events that the chart marks, as links. */
function MarkedEvents({ markers, is_cut }: Markers) {
  if (markers.length === 0 && !is_cut) return null;
  return (
    <details className="my-1 text-xs">
      <summary className="min-h-6 text-muted">
        {`Marked: ${counted(markers.length, "event")}`}
        {is_cut && `. Only the newest ${EVENTS_MAX} deployments and ${EVENTS_MAX} open incidents were searched`}
      </summary>
      <ul className="max-h-40 overflow-y-auto py-1" tabIndex={0} aria-label="Marked events">
        {markers.map(({ id, at, text, tone, link }) => (
          <li key={id} className="flex min-h-6 items-center gap-2">
            <span aria-hidden className="size-2 shrink-0" style={{ background: `var(${tone})` }} />
            <Time at={new Date(at * 1_000).toISOString()} exact />
            <Link {...link} className="min-w-0 text-accent underline">
              <Text>{text}</Text>
            </Link>
          </li>
        ))}
      </ul>
    </details>
  );
}
