import type { Severity } from "@roamfleet/protocol";
import type { MetricGate } from "@roamfleet/protocol/metric-gate";
import { formatMetricGate } from "@roamfleet/protocol/metric-gate";

/** How long a wave whose soak time is over waits for the data of its checks. Robots send metrics at least every 30 minutes. */
export const GATE_DATA_WAIT_MS = 3_600_000;

/** A check of a wave's gate. The wave passes if no check fails, and if each has seen all data of the soak time. */
export interface GateCheck {
  kind: "incidents" | "metric";
  fails: boolean;
  /** What the check has found, as a message for users. */
  message: string;
  /** Until when the check has seen all data. Null: no data. */
  covered_until: Date | null;
  /** The message for users when the data does not arrive. */
  missing: string;
  incident_id: string | null;
}

/** An incident that updated robots of a wave have joined. */
export interface JoinedIncident {
  id: string;
  title: string;
  severity: Severity;
  /** Number of updated robots of the wave that joined it. */
  robots: number;
}

const MISSING = "the alert rules were not evaluated since the end of the soak time";

/** Returns the check of incidents. `evaluated_at`: when the alert rules of the org were last evaluated. Pure. */
export function checkIncidents(severity: Severity, joined: JoinedIncident | undefined, evaluated_at: Date | null): GateCheck {
  const common = { kind: "incidents", covered_until: evaluated_at, missing: MISSING } as const;
  const asked = severity === "info" ? "new incident" : `new incident of severity ${severity}${severity === "critical" ? "" : " or above"}`;
  if (joined === undefined) return { ...common, fails: false, message: `no ${asked} on updated robots of the wave`, incident_id: null };
  const { id, title, robots } = joined;
  const whose = robots === 1 ? "an updated robot" : `${robots} updated robots`;
  return {
    ...common,
    fails: true,
    message: `${whose} of the wave joined the ${joined.severity} incident ${title} (${id})`,
    incident_id: id,
  };
}

/** A series of a robot, reduced to one value for each period. Null: no samples. */
export interface MeasuredSeries {
  now: number | null;
  /** In the hour before the wave opened. */
  before: number | null;
  /** Time of the last sample; null: none since the start of the soak time. */
  last_at: Date | null;
}

export interface MeasuredRobot {
  robot_id: string;
  /** The series of the gate's metric. */
  series: readonly MeasuredSeries[];
}

/** How far a series is outside of its bound, as a message; null if it is inside. Undefined if samples are missing. Pure. */
export function outsideOf(gate: MetricGate, { now, before }: MeasuredSeries): string | null | undefined {
  const { above, below, rise_percent, fall_percent } = gate;
  if (now === null) return undefined;
  const value = String(Number(now.toPrecision(4)));
  if (above !== undefined) return now > above ? value : null;
  if (below !== undefined) return now < below ? value : null;
  if (before === null) return undefined;
  const allowed = (Math.abs(before) * (rise_percent ?? fall_percent ?? 0)) / 100;
  const is_outside = rise_percent === undefined ? now < before - allowed : now > before + allowed;
  return is_outside ? `${value}, ${Number(before.toPrecision(4))} before` : null;
}

/**
 * Returns the check of a metric. It fails if more robots are outside of the bound than tolerated. A robot is outside if one of its series is.
 * Its data is complete until the last sample of the series that ends first. Robots without samples count as outside for the coverage: the
 * check covers a time only if the other robots are few enough to be tolerated. Pure.
 */
export function checkMetric(gate: MetricGate, robots: readonly MeasuredRobot[]): GateCheck {
  const tolerated = Math.floor((robots.length * (gate.tolerate_percent ?? 0)) / 100);
  const judged = robots.map(({ robot_id, series }) => {
    const found = series.map((one) => outsideOf(gate, one));
    const outside = found.find((one) => typeof one === "string");
    const is_missing = series.length === 0 || found.includes(undefined);
    const covered_ms = is_missing ? -Infinity : Math.min(...series.map(({ last_at }) => last_at?.getTime() ?? -Infinity));
    return { robot_id, outside, covered_ms };
  });
  const outside = judged.filter((one) => one.outside !== undefined);
  const inside = judged.filter((one) => one.outside === undefined).toSorted((a, b) => a.covered_ms - b.covered_ms);
  const covered_ms = inside[Math.max(0, tolerated - outside.length)]?.covered_ms ?? Infinity;
  const missing = inside.filter((one) => one.covered_ms === -Infinity).length;
  const first = outside[0];
  const text = formatMetricGate(gate);
  return {
    kind: "metric",
    fails: outside.length > tolerated,
    message: [
      `${text}: ${outside.length} of ${robots.length} robots outside`,
      ...(missing === 0 ? [] : [`${missing} without samples`]),
      ...(first === undefined ? [] : [`first ${first.robot_id} with ${first.outside}`]),
    ].join(", "),
    covered_until: covered_ms === -Infinity ? null : new Date(Math.min(covered_ms, LATEST_MS)),
    missing: `samples are missing for ${text}`,
    incident_id: null,
  };
}

/** Stored checks of metrics, in the order of the policy. Times are RFC 3339. */
export interface MetricChecks {
  measured_at: string;
  checks: readonly {
    message: string;
    missing: string;
    covered_until: string | null;
    /** Since when the check fails; null: it does not. */
    failed_at: string | null;
  }[];
}

/** Returns what to store of checks. A check that failed already keeps the time. Pure. */
export const storedChecks = (checks: readonly GateCheck[], before: MetricChecks | null, now: Date): MetricChecks => ({
  measured_at: now.toISOString(),
  checks: checks.map(({ message, missing, covered_until, fails }, i) => ({
    message,
    missing,
    covered_until: covered_until?.toISOString() ?? null,
    failed_at: fails ? (before?.checks[i]?.failed_at ?? now.toISOString()) : null,
  })),
});

/**
 * Returns the checks of a wave's metrics. Before the first measurement, nothing is covered. A check does not fail if a user has accepted it:
 * the deployment was resumed at `accepted_at`, after the check had begun to fail. Pure.
 */
export const metricChecksOf = (gates: readonly MetricGate[], stored: MetricChecks | null, accepted_at: Date | null): GateCheck[] =>
  gates.map((gate, i) => {
    const { message, missing, covered_until, failed_at } = stored?.checks[i] ?? {
      message: `${formatMetricGate(gate)}: not measured yet`,
      missing: `samples are missing for ${formatMetricGate(gate)}`,
      covered_until: null,
      failed_at: null,
    };
    const is_accepted = failed_at !== null && accepted_at !== null && accepted_at >= new Date(failed_at);
    return {
      kind: "metric",
      fails: failed_at !== null && !is_accepted,
      message: is_accepted ? `${message} (accepted)` : message,
      covered_until: covered_until === null ? null : new Date(covered_until),
      missing,
      incident_id: null,
    };
  });

/** Interval in which the metrics of a soaking wave are measured. */
const MEASURE_EVERY_MS = 60_000;

/** Whether to measure the metrics of a wave that passed at `passed_at` and soaks until `until`. Pure. */
export function mustMeasure(stored: MetricChecks | null, passed_at: Date, until: Date, now: Date): boolean {
  if (stored === null) return true;
  const measured_at = new Date(stored.measured_at);
  if (measured_at < passed_at || (measured_at < until && now >= until)) return true;
  return now.getTime() - measured_at.getTime() >= MEASURE_EVERY_MS;
}

/** The latest time of a `Date`. */
const LATEST_MS = 8_640_000_000_000_000;
