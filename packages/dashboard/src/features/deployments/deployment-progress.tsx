import type { TargetStatus } from "@roamfleet/protocol";
import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleDot, CircleX, Clock, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { DeploymentSearch } from "../../search.ts";
import {
  cx,
  FailedSection,
  type Filters,
  hasFailed,
  type Loaded,
  QueryState,
  Section,
  StatusBadge,
  ticker,
  Time,
  type Tone,
} from "../../ui/index.ts";
import { CountsBar, countsText } from "./deployment-parts.tsx";
import { rangesOf, robots, wholeWaveText } from "./deployment-text.ts";
import { countdownText } from "./draft.ts";
import { hasEnded, type Situation, type SituationFacts, situationOf } from "./steps.ts";

const INKS: Record<Tone, string> = { ok: "text-ok", warn: "text-warn", bad: "text-bad", info: "text-info", idle: "text-ink" };

/**
 * The robot counts of a deployment. A click on one filters the table by `status`. Updating robots have several statuses, so their count has
 * no `status`.
 */
const FIGURES: readonly { name: keyof Deployment["counts"]; label: string; tone: Tone; status?: TargetStatus }[] = [
  { name: "applied", label: "applied", tone: "ok", status: "applied" },
  { name: "active", label: "updating", tone: "info" },
  { name: "queued", label: "queued", tone: "idle", status: "queued" },
  { name: "pending", label: "in later waves", tone: "idle", status: "pending" },
  { name: "failed", label: "failed", tone: "bad", status: "failed" },
  { name: "rolled_back", label: "rolled back", tone: "warn", status: "rolled_back" },
  { name: "cancelled", label: "cancelled", tone: "idle", status: "cancelled" },
];

/** The progress of a deployment. A click on a figure filters the table by its status. */
export function Counts({
  counts,
  label,
  note,
  filters: { search, change },
}: {
  counts: Deployment["counts"];
  label: string;
  /** Shown beside the percentage. */
  note?: ReactNode;
  filters: Filters<DeploymentSearch>;
}) {
  const done = counts.applied + counts.failed + counts.rolled_back + counts.cancelled;
  const percent = counts.total === 0 ? 0 : Math.floor((100 * done) / counts.total);
  return (
    <div className="mb-6 rounded-lg border border-line bg-raised p-4">
      <div className="mb-2 flex flex-wrap items-baseline justify-between gap-x-4">
        <p>
          <span className="text-2xl font-semibold tabular-nums">{done.toLocaleString()}</span>
          <span className="text-muted tabular-nums"> of {robots(counts.total)} finished</span>
        </p>
        <p className="text-muted tabular-nums">
          {note} {percent}%
        </p>
      </div>
      <CountsBar counts={counts} label={label} />
      <ul className="-mx-2 mt-3 flex flex-wrap gap-x-2 gap-y-1">
        {FIGURES.filter(({ name }) => counts[name] > 0 || name === "applied").map(({ name, label: text, tone, status }) => (
          <li key={name}>
            <Figure
              text={text}
              ink={INKS[tone]}
              value={counts[name]}
              is_on={status !== undefined && search.status === status}
              {...(status === undefined ? {} : { onToggle: () => change({ status: search.status === status ? undefined : status }) })}
            />
          </li>
        ))}
      </ul>
    </div>
  );
}

function Figure({
  text,
  ink,
  value,
  is_on,
  onToggle,
}: {
  text: string;
  ink: string;
  value: number;
  is_on: boolean;
  onToggle?: () => void;
}) {
  const inside = (
    <>
      <span className={cx("font-semibold tabular-nums", ink)}>{value.toLocaleString()}</span> {text}
    </>
  );
  if (onToggle === undefined) return <span className="inline-flex h-7 items-center gap-1 px-2">{inside}</span>;
  return (
    <button
      type="button"
      aria-pressed={is_on}
      onClick={onToggle}
      className={cx("inline-flex h-7 items-center gap-1 rounded-md px-2 hover:bg-hover", is_on && "bg-accent-soft")}
    >
      {inside}
    </button>
  );
}

const LOOKS: Record<Tone, { box: string; ink: string; icon: typeof Clock }> = {
  ok: { box: "border-ok bg-ok-soft", ink: "text-ok", icon: CircleCheck },
  warn: { box: "border-warn bg-warn-soft", ink: "text-warn", icon: TriangleAlert },
  bad: { box: "border-bad bg-bad-soft", ink: "text-bad", icon: CircleX },
  info: { box: "border-info bg-info-soft", ink: "text-info", icon: CircleDot },
  idle: { box: "border-line bg-idle-soft", ink: "text-idle", icon: Clock },
};

interface SituationProps {
  deployment: SituationFacts;
  waves: Loaded<{ items: readonly DeploymentWave[] }>;
}

/** Shows the state of a deployment. Only the waves show what a deployment waits for that has not ended. */
export function DeploymentSituation({ deployment, waves }: SituationProps) {
  const known = waves.data?.items ?? (hasEnded(deployment.status) ? [] : undefined);
  if (known === undefined && hasFailed(waves)) return <FailedSection title="Current state" query={waves} />;
  return (
    <QueryState query={{ ...waves, data: known }} rows={1}>
      {(items) => <SituationNote situation={situationOf(deployment, items)} />}
    </QueryState>
  );
}

/** Shows the state of a deployment and a suggested next step. Screen readers announce changes. */
function SituationNote({ situation: { tone, text, advice, incident_id, until, starts = false } }: { situation: Situation }) {
  const { box, ink, icon: Icon } = LOOKS[tone];
  return (
    <div role="status" className={cx("mb-4 flex items-start gap-2.5 rounded-lg border px-4 py-3", box)}>
      <Icon size={18} aria-hidden className={cx("mt-0.5 shrink-0", ink)} />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p className="font-medium">{text}</p>
        {advice !== undefined && <p className="text-sm text-ink">{advice}</p>}
        {incident_id !== undefined && (
          <Link to="/incidents/$id" params={{ id: incident_id }} className="text-sm text-accent underline">
            Show incident
          </Link>
        )}
      </div>
      {until !== undefined && (
        <p className="ml-auto shrink-0 text-right">
          <span className="block text-xs">{starts ? "starts in" : "continues in"}</span>
          <Countdown until={until} over="a moment" />
        </p>
      )}
    </div>
  );
}

const TICK_MS = 1_000;

/** The current time, updated every second. */
const useSecond = ticker(TICK_MS);

/** Shows the time left, updated every second; `over` once it has passed. */
function Countdown({ until, over }: { until: string; over: string }) {
  const now = useSecond();
  return (
    <time dateTime={until} title={until} role="timer" className="font-medium tabular-nums">
      {countdownText(until, Math.max(now, Date.now() - TICK_MS)) ?? over}
    </time>
  );
}

/** The waves in order, each with its robots, progress and state. A click filters the table by the wave. */
export function WaveList({
  waves,
  is_paused,
  chosen,
  onChoose,
}: {
  waves: readonly DeploymentWave[];
  /** Whether the deployment is paused. Then no further wave opens until it is resumed. */
  is_paused: boolean;
  /** The wave that filters the table, counted from 1; undefined: all waves. */
  chosen: number | undefined;
  onChoose: (wave: number | undefined) => void;
}) {
  const ranges = rangesOf(waves);
  return (
    <Section title="Waves">
      <ol className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-raised">
        {waves.map((wave, index) => (
          <li key={wave.wave}>
            <WaveRow
              wave={wave}
              is_paused={is_paused && PAUSABLE.has(wave.status)}
              range={ranges[index] ?? ""}
              is_chosen={chosen === wave.wave + 1}
              onToggle={() => onChoose(chosen === wave.wave + 1 ? undefined : wave.wave + 1)}
            />
          </li>
        ))}
      </ol>
    </Section>
  );
}

/** Statuses of a wave in which pausing the deployment stops the wave. */
const PAUSABLE: ReadonlySet<string> = new Set(["open", "soaking", "gate"]);

interface RowParts {
  wave: DeploymentWave;
  is_paused: boolean;
  /** The robots of the wave in rollout order, such as "robots 2–12 of 12". */
  range: string;
  is_chosen: boolean;
  onToggle: () => void;
}

function WaveRow({ wave, is_paused, range, is_chosen, onToggle }: RowParts) {
  const number = wave.wave + 1;
  return (
    <button
      type="button"
      aria-pressed={is_chosen}
      onClick={onToggle}
      className={cx(
        "grid w-full grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 gap-y-1 px-4 py-2.5 text-left -outline-offset-2 hover:bg-hover sm:grid-cols-[minmax(0,1.2fr)_9rem_minmax(0,1.4fr)_9rem]",
        is_chosen && "bg-accent-soft",
      )}
    >
      <span className="min-w-0">
        <span className="block font-medium">Wave {number}</span>
        <span className="block text-xs text-muted [overflow-wrap:anywhere]">{wholeWaveText(wave)}</span>
      </span>
      <span className="justify-self-end sm:justify-self-start">
        <StatusBadge status={is_paused ? "paused" : wave.status} />
      </span>
      <span className="min-w-0 max-sm:col-span-2">
        <span className="mb-0.5 block truncate text-xs text-muted tabular-nums">
          {countsText(wave)}, {range}
        </span>
        <CountsBar counts={wave} label={`Wave ${number}`} />
      </span>
      <span className="text-xs text-muted max-sm:col-span-2 sm:text-right">
        <WaveNote wave={wave} is_paused={is_paused} />
      </span>
    </button>
  );
}

function WaveNote({ wave, is_paused }: Pick<RowParts, "wave" | "is_paused">) {
  if (wave.status === "soaking" && wave.soaks_until !== null)
    return (
      <>
        soak time left: <Countdown until={wave.soaks_until} over={is_paused ? "none" : "a moment"} />
      </>
    );
  if (wave.status === "gate") return is_paused ? "resume, then promote" : "promote to continue";
  if (wave.passed_at !== null)
    return (
      <>
        passed <Time at={wave.passed_at} />
      </>
    );
  if (wave.opened_at !== null)
    return (
      <>
        opened <Time at={wave.opened_at} />
      </>
    );
  return "not started";
}
