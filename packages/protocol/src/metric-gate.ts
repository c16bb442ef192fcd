/** What a wave's gate requires of a metric of its robots. Exactly one bound is set. */
export interface MetricGate {
  name: string;
  /** Series with these labels. Absent: all series of the metric. */
  labels?: Readonly<Record<string, string>>;
  aggregation: "mean" | "max";
  /** The check fails above or below this value. */
  above?: number;
  below?: number;
  /** The check fails if the value rises or falls by more than this percentage of the robot's value before its update. */
  rise_percent?: number;
  fall_percent?: number;
  /** Percentage of the wave's robots that may be outside of the bound. Default: 0. */
  tolerate_percent?: number;
}

export const METRIC_GATE_BOUNDS = ["above", "below", "rise_percent", "fall_percent"] as const;

const NAME = "[a-zA-Z_][a-zA-Z0-9_]*";
const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e[+-]?\d+)?`;
const GATE = new RegExp(
  String.raw`^(${NAME})(?:\{([^{}]*)\})?\s+(mean|max)\s+(above|below|rise|fall)\s+(${NUMBER})(%?)(?:\s+tolerate\s+(\d+(?:\.\d+)?)%)?$`,
);

/**
 * Parses `memory_used_bytes mean rise 10%` or `disk_used_bytes{mount=/data} max above 5e9 tolerate 5%`. Returns undefined for other texts.
 */
export function parseMetricGate(text: string): MetricGate | undefined {
  const [, name, pairs, aggregation, bound, value, percent, tolerate] = GATE.exec(text.trim()) ?? [];
  const is_relative = bound === "rise" || bound === "fall";
  if (name === undefined || (percent === "%") !== is_relative) return undefined;
  const labels = pairs === undefined ? undefined : parseLabels(pairs);
  if (pairs !== undefined && labels === undefined) return undefined;
  return {
    name,
    ...(labels === undefined ? {} : { labels }),
    aggregation: aggregation === "max" ? "max" : "mean",
    [is_relative ? `${bound}_percent` : String(bound)]: Number(value),
    ...(tolerate === undefined ? {} : { tolerate_percent: Number(tolerate) }),
  };
}

const SERIES = new RegExp(String.raw`^(${NAME})(?:\{([^{}]*)\})?$`);

/** Parses `disk_used_bytes{mount=/data}`. Returns undefined for other texts. */
export function parseSeries(text: string): { name: string; labels: Record<string, string> } | undefined {
  const [, name, pairs] = SERIES.exec(text.trim()) ?? [];
  const labels = pairs === undefined ? {} : parseLabels(pairs);
  return name === undefined || labels === undefined ? undefined : { name, labels };
}

/** Formats the name of a metric with its labels, so that `parseSeries` returns them again. */
export function formatSeries(name: string, labels: Readonly<Record<string, string>> = {}): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}

function parseLabels(text: string): Record<string, string> | undefined {
  const pairs = text.split(",").map((pair) => pair.trim());
  if (pairs.some((pair) => pair.indexOf("=") < 1)) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

/** Formats a gate so that `parseMetricGate` returns it again, except for label values that contain commas or braces. */
export function formatMetricGate(gate: MetricGate): string {
  const { name, labels, aggregation, above, below, rise_percent, fall_percent, tolerate_percent } = gate;
  const bound =
    above !== undefined
      ? `above ${above}`
      : below !== undefined
        ? `below ${below}`
        : rise_percent !== undefined
          ? `rise ${rise_percent}%`
          : `fall ${fall_percent}%`;
  return `${formatSeries(name, labels)} ${aggregation} ${bound}${tolerate_percent === undefined || tolerate_percent === 0 ? "" : ` tolerate ${tolerate_percent}%`}`;
}
