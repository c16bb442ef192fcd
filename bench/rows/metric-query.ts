import { systemClock } from "@roamfleet/clock";
import pg from "pg";
import { connect } from "../../packages/server/src/engines/db/index.ts";
import { ROLLUPS } from "../../packages/server/src/features/metrics/retention.ts";
import { DayOfSamples, DAY_MS } from "../../packages/server/src/features/metrics/rollup.ts";
import { sortPastDays } from "../../packages/server/src/kernel/daily-partitions.ts";
import { createLog } from "../../packages/server/src/kernel/log.ts";
import { cpuMicroseconds, ratioOf, type Sample, sample } from "../measure.ts";
import type { Program, Rig } from "../rig.ts";
import { insertRobots } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";

const SITES = 10;
const ROBOTS = 1_000;
const QUICK_ROBOTS = 100;
const DAYS = 30;
const POINTS = 120;
const NAMES = 14;
/** Different contents of rollups. */
const PATTERNS = 64;
const ROUNDS = 9;
const QUERY_MS_MAX = 300;

/** Returns hours of one day of a metric with a sample each minute. */
function hoursOfDay(): Buffer {
  const samples = new DayOfSamples(0);
  const times = Array.from({ length: 1_440 }, (_, i) => i * 60_000);
  samples.add({ name: "value", labels: {}, times, values: times.map(() => Math.round(Math.random() * 1_000) / 10) });
  return samples.rollups().find(({ step_seconds }) => step_seconds === 3_600)?.intervals ?? Buffer.alloc(0);
}

/** Inserts rollups of hours in the order in which they would be written: the metrics of a robot and day beside each other. Sorts them as the server does. */
async function insertRollups(rig: Rig, client: pg.Client, first_day: number): Promise<void> {
  const patterns = Array.from({ length: PATTERNS }, hoursOfDay);
  for (let day = 0; day < DAYS; day += 1) {
    const at = new Date(first_day + day * DAY_MS);
    const partition = `metric_rollup_${at.toISOString().slice(0, 10).replaceAll("-", "")}`;
    await client.query(
      `create table if not exists ${partition} partition of metric_rollup
       for values from ('${at.toISOString()}') to ('${new Date(at.getTime() + DAY_MS).toISOString()}')`,
    );
    await client.query(
      `insert into metric_rollup (org_id, name, step_seconds, day, robot_id, labels, intervals)
       select $1, 'value_' || n, 3600, $2, r.id, '{}', p.intervals from (select id, row_number() over (order by id) as nth from robot where org_id = $1) r
       cross join generate_series(0, ${NAMES - 1}) n join unnest($3::bytea[]) with ordinality as p (intervals, nth)
         on p.nth = (r.nth * 7 + n * 3 + $4) % ${PATTERNS} + 1
       order by r.nth, n`,
      [rig.org_id, at, patterns, day],
    );
  }
  await client.query("analyze metric_rollup");
  const db = await connect({ connection: rig.database, clock: systemClock, log: createLog({ level: "error" }) });
  await sortPastDays({ db, clock: systemClock }, ROLLUPS);
  await db.close();
}

/** The duration of each request, and the CPU time that the program spent on it. */
class Times {
  readonly ms: number[] = [];
  readonly cpu_us: number[] = [];

  async add({ pid, url }: Program, path: string, headers: Record<string, string> = {}): Promise<void> {
    const [began, before] = [performance.now(), cpuMicroseconds(pid)];
    const response = await fetch(`${url}${path}`, { headers });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    this.ms.push(performance.now() - began);
    this.cpu_us.push(cpuMicroseconds(pid) - before);
  }

  /** The first request warms up. */
  get samples(): { ms: Sample; cpu_us: Sample } {
    return { ms: sample(this.ms.slice(1)), cpu_us: sample(this.cpu_us.slice(1)) };
  }
}

async function measure(rig: Rig, client: pg.Client): Promise<RowResult[]> {
  const robots = rig.quick ? QUICK_ROBOTS : ROBOTS;
  for (let i = 0; i < SITES; i += 1) await insertRobots(rig, robots / SITES);
  const until = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const since = until - DAYS * DAY_MS;
  await insertRollups(rig, client, since);
  const period = [new Date(since).toISOString(), new Date(until).toISOString()] as const;
  const limit = await rig.start("limits/select-rows", {
    DATABASE: JSON.stringify(rig.database),
    QUERY:
      "select robot_id, intervals from metric_rollup where org_id = $1 and name = $2 and step_seconds = 3600 and day >= $3 and day < $4",
    VALUES: JSON.stringify([rig.org_id, "value_5", ...period]),
  });
  const query = `name=value_5&since=${period[0]}&until=${period[1]}&points=${POINTS}`;
  const parts = [
    { part: "one group", path: `/api/metrics/query?${query}`, times: new Times() },
    { part: `a group for each of ${SITES} sites`, path: `/api/metrics/query?${query}&group_by=site`, times: new Times() },
  ];
  const of_limit = new Times();
  for (let i = 0; i <= (rig.quick ? 1 : ROUNDS); i += 1) {
    await of_limit.add(limit, "/run");
    for (const { path, times } of parts) await times.add(rig.server, path, { authorization: `Bearer ${rig.token}` });
  }
  await limit.stop();
  const beside = of_limit.samples;
  return parts.map(({ part, times }): RowResult => {
    const { ms, cpu_us } = times.samples;
    return {
      part,
      ours: ms,
      limit: beside.ms,
      unit: "ms",
      ratio: ratioOf(ms, beside.ms),
      figure: `${ms.median.toFixed(0)} ms`,
      goal: `≤ ${QUERY_MS_MAX} ms`,
      met: ms.median <= QUERY_MS_MAX,
      ours_cpu_us: cpu_us,
      limit_cpu_us: beside.cpu_us,
    };
  });
}

export const metricQuery: Row = {
  name: "metric-query",
  area: "logs",
  about: `a graph of ${DAYS} days of a metric of ${ROBOTS} robots with ${POINTS} points; compared with a SELECT of the same bytes`,
  run: async (rig) => {
    const client = new pg.Client(rig.database);
    await client.connect();
    try {
      return await measure(rig, client);
    } finally {
      await client.end();
    }
  },
};
