import type { Plane } from "../../context.ts";
import type { MetricEndpoint } from "../../metric-endpoints.ts";
import { oldestKept } from "../../kernel/daily-partitions.ts";
import type { Db } from "../../kernel/db.ts";
import { httpError } from "../../kernel/fault.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { exchange } from "./http-exchange.ts";
import { type FoundMetrics, type IntervalSeries, type MetricsQuery, queryMetrics, SERIES_SHOWN_MAX } from "./read.ts";
import { JOB, OUR_LABELS, robotLabels } from "./remote-write/write-request.ts";

/** Time for one request to the service. */
export const READ_TIMEOUT_MS = 20_000;
/** Bytes of one response: more than 100 series with 1,000 intervals. */
const RESPONSE_BYTES_MAX = 16 * 1024 * 1024;
/** Concurrent queries of a node. Further ones get 503. */
const READS_MAX = 8;
/** Names of one query; each is three expressions. */
const NAMES_MAX = SERIES_SHOWN_MAX;
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const DIGITS = 10;
/** A label of our own in the result. Labels of robots never begin with `__`. */
const AGGREGATION_LABEL = "__aggregation__";
const AGGREGATIONS = { mean: "avg", min: "min", max: "max" } as const;
type Aggregation = keyof typeof AGGREGATIONS;

const readsOf = planeState((_: Plane) => ({ running: 0 }));

/** Like `queryMetrics`. If the database no longer has the whole period, reads it from the Prometheus-compatible API of the settings. */
export async function queryStoredOrRemote(plane: Plane, db: Db, org_id: string, query: MetricsQuery): Promise<FoundMetrics> {
  const { settings, retention_clock, log } = plane;
  const endpoint = settings.metric_endpoints?.read;
  const oldest = oldestKept(retention_clock, settings.limits.metric_raw_retention_days);
  if (endpoint === undefined || query.since >= oldest) return await queryMetrics(db, org_id, query);
  const reads = readsOf(plane);
  if (reads.running >= READS_MAX) throw httpError(503, "too many queries of old metrics are running; try again", { "retry-after": "2" });
  reads.running += 1;
  try {
    return await queryRemote(plane, endpoint, org_id, query);
  } catch (error) {
    log.warn({ err: error }, "old metrics could not be read");
    const message = `metrics from before ${oldest.toISOString()} are in another service, which did not answer`;
    throw httpError(503, `${message}; try again, or choose a later period`, { "retry-after": "10" });
  } finally {
    reads.running -= 1;
  }
}

async function queryRemote(plane: Plane, endpoint: MetricEndpoint, org_id: string, query: MetricsQuery): Promise<FoundMetrics> {
  const { robot_id, since, until, points } = query;
  const of_robot = { job: JOB, org_id, robot_id };
  const ask = (path: string, form: Record<string, string>) => askService(plane, endpoint, path, form);
  const seconds = (ms: number): string => (ms / 1_000).toFixed(3);
  let names = query.names;
  if (names === undefined) {
    const period = { start: seconds(since.getTime()), end: seconds(until.getTime()) };
    const found = (await ask("/api/v1/series", { "match[]": selector(of_robot), ...period })) as Record<string, string>[];
    names = new Set(found.map(({ __name__ = "" }) => __name__));
  }
  const valid = [...names].filter((name) => NAME.test(name)).toSorted();
  if (valid.length === 0) return { series: [], omitted_series: 0, points };
  const step_ms = Math.max(1, Math.floor((until.getTime() - since.getTime()) / points));
  // An evaluation covers the time up to and including its own, so it is a millisecond before the next interval.
  const start_ms = since.getTime() + step_ms - 1;
  const found = (await ask("/api/v1/query_range", {
    query: anyOf(valid.slice(0, NAMES_MAX).flatMap((name) => expressionsOf(name, of_robot, step_ms))),
    start: seconds(start_ms),
    end: seconds(start_ms + (points - 1) * step_ms),
    step: seconds(step_ms),
  })) as { metric: Record<string, string>; values: [seconds: number, value: string][] }[];
  const series = new Map<string, IntervalSeries>();
  for (const { metric, values } of found) {
    const { __name__: name = "", [AGGREGATION_LABEL]: aggregation } = metric;
    const labels = robotLabels(metric);
    const key = `${name} ${JSON.stringify(labels)}`;
    const empty = (): null[] => Array.from({ length: points }, () => null);
    const one = series.get(key) ?? { name, labels, mean: empty(), min: empty(), max: empty() };
    series.set(key, one);
    const of = one[aggregation as Aggregation];
    for (const [at, text] of values) {
      const [value, index] = [Number(text), Math.round((at * 1_000 - start_ms) / step_ms)];
      if (Number.isFinite(value) && index >= 0 && index < points)
        of[index] = aggregation === "mean" ? Number(value.toPrecision(DIGITS)) : value;
    }
  }
  const sorted = [...series].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  return {
    series: sorted.slice(0, SERIES_SHOWN_MAX),
    points,
    omitted_series: Math.max(0, sorted.length - SERIES_SHOWN_MAX) + Math.max(0, valid.length - NAMES_MAX),
  };
}

/** Formats a PromQL selector. Values are quoted, so that no value can end the selector. */
export const selector = (labels: Readonly<Record<string, string>>): string =>
  `{${Object.entries(labels)
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`)
    .join(",")}}`;

/**
 * Returns the three expressions of a metric. Functions over time remove the name, so it is added again. Labels of ours are removed: a robot
 * that was moved or renamed has one series.
 */
const expressionsOf = (name: string, labels: Readonly<Record<string, string>>, step_ms: number): string[] =>
  Object.entries(AGGREGATIONS).map(([aggregation, by]) => {
    const values = `${by} without (${[...OUR_LABELS].join(",")}) (${by}_over_time(${selector({ __name__: name, ...labels })}[${step_ms}ms]))`;
    return `label_replace(label_replace(${values},"__name__","${name}","",""),"${AGGREGATION_LABEL}","${aggregation}","","")`;
  });

/** Combines expressions as a balanced tree. A chain of `or` takes quadratic time. */
function anyOf(expressions: readonly string[]): string {
  const [first = "", ...rest] = expressions;
  if (rest.length === 0) return first;
  const half = expressions.length >> 1;
  return `(${anyOf(expressions.slice(0, half))} or ${anyOf(expressions.slice(half))})`;
}

/** Sends a request and returns `data` of the response, or its `result`. Throws unless the service answers with success. */
async function askService({ clock }: Plane, endpoint: MetricEndpoint, path: string, form: Record<string, string>): Promise<unknown[]> {
  const { status, text, is_cut } = await exchange({ clock }, endpoint, {
    path,
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
    body: new URLSearchParams(form).toString(),
    timeout_ms: READ_TIMEOUT_MS,
    response_bytes_max: RESPONSE_BYTES_MAX,
  });
  if (is_cut) throw new Error(`the response to ${path} is too large`);
  if (status !== 200) throw new Error(`${path} responded with status ${status}`);
  const { data } = JSON.parse(text) as { data?: unknown };
  const list = Array.isArray(data) ? data : (data as { result?: unknown } | undefined)?.result;
  if (!Array.isArray(list)) throw new Error(`${path} responded with another format`);
  return list;
}
