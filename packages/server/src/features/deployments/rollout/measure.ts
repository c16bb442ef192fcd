import type { Series } from "@roamfleet/protocol/link";
import type { MetricGate } from "@roamfleet/protocol/metric-gate";
import type { Db } from "../../../kernel/db.ts";
import { isSeriesOf, labelsKey, seriesOf } from "../../../kernel/stored-series.ts";
import { yieldToEventLoop } from "../../../kernel/yield.ts";
import { listChunks, listMeasuredRobots } from "../store/gates.ts";
import { checkMetric, type GateCheck, type MeasuredRobot, type MeasuredSeries } from "./gate-checks.ts";

const HOUR_MS = 3_600_000;

interface Period {
  since: number;
  until: number;
}

/** What is measured of a wave: the robots' samples of the soak time, or its last hour, and of the hour before the wave opened. */
export interface Measured {
  org_id: string;
  deployment_id: string;
  wave: number;
  opened_at: Date;
  passed_at: Date;
  soaks_until: Date;
}

/** Measures the metrics of a wave's robots, and returns the checks of these gates. */
export async function measureGates(db: Db, wave: Measured, gates: readonly MetricGate[], now: Date): Promise<GateCheck[]> {
  const { org_id, opened_at, passed_at, soaks_until } = wave;
  const until = Math.min(now.getTime(), soaks_until.getTime());
  const soak = { since: Math.max(passed_at.getTime(), until - HOUR_MS), until };
  const before = { since: opened_at.getTime() - HOUR_MS, until: opened_at.getTime() };
  const is_relative = gates.some(({ rise_percent, fall_percent }) => rise_percent !== undefined || fall_percent !== undefined);
  const measured = gates.map((): MeasuredRobot[] => []);
  for (const { robot_id } of await listMeasuredRobots(db, org_id, wave.deployment_id, wave.wave)) {
    const chunks = await listChunks(db, org_id, robot_id, new Date(soak.since), now);
    if (is_relative) chunks.push(...(await listChunks(db, org_id, robot_id, new Date(before.since), opened_at)));
    const series = new Map(gates.map((gate) => [gate, new Map<string, SeriesSum>()]));
    for (const one of chunks.flatMap(({ chunk }) => seriesOf(chunk)))
      for (const [gate, of_gate] of series) if (isSeriesOf(one, gate.name, gate.labels)) addSamples(of_gate, gate, one, { soak, before });
    gates.forEach((gate, i) => measured[i]?.push({ robot_id, series: [...(series.get(gate)?.values() ?? [])].map((sum) => sum.result()) }));
    await yieldToEventLoop();
  }
  return gates.map((gate, i) => checkMetric(gate, measured[i] ?? []));
}

function addSamples(found: Map<string, SeriesSum>, gate: MetricGate, series: Series, periods: Record<"soak" | "before", Period>): void {
  const key = labelsKey(series);
  let sum = found.get(key);
  if (sum === undefined) found.set(key, (sum = new SeriesSum(gate.aggregation)));
  for (const [i, time] of series.times.entries()) sum.add(time, series.values[i] ?? Number.NaN, periods);
}

/** The samples of one series, reduced to one value for each period. */
class SeriesSum {
  readonly #aggregation: MetricGate["aggregation"];
  readonly #of = { soak: { sum: 0, max: -Infinity, count: 0 }, before: { sum: 0, max: -Infinity, count: 0 } };
  #last = -Infinity;

  constructor(aggregation: MetricGate["aggregation"]) {
    this.#aggregation = aggregation;
  }

  add(time: number, value: number, periods: Record<"soak" | "before", Period>): void {
    if (!Number.isFinite(value)) return;
    this.#last = Math.max(this.#last, time);
    for (const name of ["soak", "before"] as const) {
      if (time < periods[name].since || time >= periods[name].until) continue;
      const of = this.#of[name];
      of.sum += value;
      of.max = Math.max(of.max, value);
      of.count += 1;
    }
  }

  result(): MeasuredSeries {
    const valueOf = ({ sum, max, count }: { sum: number; max: number; count: number }) =>
      count === 0 ? null : this.#aggregation === "max" ? max : sum / count;
    return {
      now: valueOf(this.#of.soak),
      before: valueOf(this.#of.before),
      last_at: Number.isFinite(this.#last) ? new Date(this.#last) : null,
    };
  }
}
