import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeChunk, type Series } from "@roamfleet/protocol/link";
import type { MetricAnswer, RobotMetrics } from "@roamfleet/protocol/routes";
import fc from "fast-check";
import type { Db } from "../../kernel/db.ts";
import { sql, type Statement } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { type Seeded, seedRobot } from "../testing/seed-robot.ts";
import { createCredential } from "../tokens/index.ts";
import { metricRoutes, startMetricRetention, startRollups, storeSamples } from "./index.ts";
import { Intervals } from "./intervals.ts";
import { resolutionOf } from "./read.ts";
import { rollUpDue } from "./roll-up.ts";
import { addRollup, DAY_MS, dayOf, DayOfSamples, STEPS } from "./rollup.ts";
import { rollupsOfRobot } from "./store-rollups.ts";

const TIMEOUT = { timeout: 120_000 };
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

async function start() {
  const rig = await startFeaturePlane([metricRoutes]);
  const { plane } = rig;
  const { org_id, token } = await rig.org();
  const db = plane.db.forOrg(org_id);
  const seqs = new Map<string, number>();
  return {
    rig,
    plane,
    org_id,
    token,
    db,
    now: plane.clock.now().getTime(),
    robot: (place: Partial<Seeded> = {}) => seedRobot(plane, org_id, place),
    /** Stores samples of one series of a robot as one chunk. */
    store: (robot_id: string, name: string, samples: readonly (readonly [number, number])[], labels: Record<string, string> = {}) => {
      const seq = (seqs.get(robot_id) ?? 0) + 1;
      seqs.set(robot_id, seq);
      const series: Series = { name, labels, times: samples.map(([time]) => time), values: samples.map(([, value]) => value) };
      return storeSamples(plane, org_id, robot_id, { outbox_id: "spool", seq, chunk: encodeChunk([series]) });
    },
    /** Adds new chunks to the rollups when each robot may have its next turn. */
    rollUp: async () => {
      await rig.clock.advance({ minutes: 5 });
      await rollUpDue(plane);
    },
    /** Returns the number and the sum of the samples in the rollups of a robot and day. */
    totals: async (robot_id: string, at: number) => {
      const day = dayOf(at);
      const read = new Intervals(day, day + DAY_MS, 1);
      const period = { since: new Date(day), until: new Date(day + DAY_MS), step_seconds: 3_600 } as const;
      for (const rollup of await rollupsOfRobot(db, org_id, robot_id, period)) addRollup(rollup, day, read);
      return [read.counts[0], read.sums[0]];
    },
    query: async (query: Record<string, string>, by = token) => {
      const { status, body } = await rig.call<{ data: MetricAnswer }>(
        "GET",
        `/api/metrics/query?${new URLSearchParams(query).toString()}`,
        {
          token: by,
        },
      );
      assert.equal(status, 200, JSON.stringify(body));
      return body.data;
    },
    names: async (by = token) => (await rig.call<{ data: { names: string[] } }>("GET", "/api/metrics", { token: by })).body.data.names,
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

test("rollups have the number, average, lowest and highest sample of each interval", () => {
  const value = fc.oneof(fc.double({ noDefaultInfinity: true, noNaN: true, min: -1e6, max: 1e6 }), fc.integer({ min: 0, max: 2 ** 50 }));
  const samples = fc.array(fc.tuple(fc.integer({ min: -HOUR_MS, max: DAY_MS + HOUR_MS }), value), { maxLength: 100 });
  fc.assert(
    fc.property(samples, (given) => {
      const day = 20_000 * DAY_MS;
      const series = { name: "a", labels: {}, times: given.map(([at]) => day + at), values: given.map(([, one]) => one) };
      const of_day = new DayOfSamples(day);
      of_day.add(series);
      for (const rollup of of_day.rollups()) {
        const points = DAY_MS / (rollup.step_seconds * 1_000);
        const [read, direct] = [new Intervals(day, day + DAY_MS, points), new Intervals(day, day + DAY_MS, points)];
        addRollup(rollup, day, read);
        direct.add(series);
        assert.deepEqual(read.counts, direct.counts);
        // Stored with the precision of float32, relative to the first value.
        const scale = Math.max(1, ...series.values.map(Math.abs));
        for (const which of ["mean", "min", "max"] as const)
          read.values()[which].forEach((one, i) => {
            const other = direct.values()[which][i] ?? null;
            if (one === null || other === null) assert.equal(one, other);
            else assert.ok(Math.abs(one - other) <= scale * 1e-6, `${which}: ${one} and ${other}`);
          });
      }
      assert.equal(of_day.rollups().length, given.some(([at]) => at >= 0 && at < DAY_MS) ? STEPS.length : 0);
    }),
  );
});

test("a robot's metrics are read from rollups when the samples are gone, also of chunks that came late", TIMEOUT, async () => {
  await using of = await start();
  const { rig, plane, db, org_id, token, now } = of;
  const { robot_id } = await of.robot();
  const at = now - 3 * DAY_MS;
  const read = async () => {
    const period = `since=${new Date(at).toISOString()}&until=${new Date(at + 4 * HOUR_MS).toISOString()}&points=4`;
    const { data } = (await rig.call<{ data: RobotMetrics }>("GET", `/api/robots/${robot_id}/metrics?${period}`, { token })).body;
    return data.series.map(({ name, mean, min, max }) => ({ name, mean, min, max }));
  };
  const forget = () => db.run(sql`delete from metric_chunk where org_id = ${org_id}`);
  await of.store(robot_id, "cpu_percent", [
    [at, 10],
    [at + 10 * MINUTE_MS, 20],
  ]);
  await rollUpDue(plane);
  await of.store(robot_id, "cpu_percent", [[at + 2 * HOUR_MS, 40]]);
  await of.rollUp();
  const raw = await read();
  assert.deepEqual(raw, [{ name: "cpu_percent", mean: [15, null, 40, null], min: [10, null, 40, null], max: [20, null, 40, null] }]);
  // The samples are kept for a week; after eight days they are gone.
  await rig.clock.advance({ hours: 8 * 24 });
  await forget();
  assert.deepEqual(await read(), raw);
});

test("each sample is counted once: of concurrent passes, after a failure, and of a robot whose clock was set back", TIMEOUT, async () => {
  await using of = await start();
  const { plane, now } = of;
  const { robot_id } = await of.robot();
  const at = now - 3 * DAY_MS + HOUR_MS;
  const counts = () => of.totals(robot_id, at);
  await of.store(robot_id, "cpu_percent", [[at, 10]]);
  await Promise.all([rollUpDue(plane), rollUpDue(plane)]);
  assert.deepEqual(await counts(), [1, 10]);
  await of.store(robot_id, "cpu_percent", [[at + 1_000, 20]]);
  await of.store(robot_id, "cpu_percent", [[at - MINUTE_MS, 30]]);
  await plane.db.run(sql`alter table metric_rollup_position add constraint refused check (number < 2)`);
  await of.rollUp();
  assert.deepEqual(await counts(), [1, 10]);
  await plane.db.run(sql`alter table metric_rollup_position drop constraint refused`);
  await rollUpDue(plane);
  await of.rollUp();
  assert.deepEqual(await counts(), [3, 60]);
});

/** Starts the loop of rollups. Each reading of its monotonic clock takes a second, so that a pass of 3 s has time for two robots. */
async function startSlowly(of: Awaited<ReturnType<typeof start>>) {
  const { clock } = of.rig;
  const monotonic = clock.monotonic.bind(clock);
  let readings = 0;
  clock.monotonic = () => monotonic() + 1_000 * (readings += 1);
  const rollups = startRollups(of.plane);
  return {
    lag: async () => Number(/^roamfleet_metric_rollup_lag_seconds (.+)$/m.exec(await of.plane.metrics.registry.metrics())?.[1]),
    [Symbol.asyncDispose]: () => rollups.stop(),
  };
}

test(
  "robots that a pass leaves are added soon after it, not at the next interval, and the lag shows how long they wait",
  TIMEOUT,
  async () => {
    await using of = await start();
    const { rig, now } = of;
    const robots = await Promise.all(Array.from({ length: 7 }, () => of.robot()));
    for (const { robot_id } of robots) await of.store(robot_id, "cpu_percent", [[now, 1]]);
    const count = async () =>
      (await Promise.all(robots.map(({ robot_id }) => of.totals(robot_id, now)))).filter(([samples]) => samples === 1).length;
    await using rollups = await startSlowly(of);
    assert.deepEqual([await count(), await rollups.lag()], [0, 0]);
    await rig.clock.advance({ seconds: 30 });
    assert.equal(await count(), 2);
    const lag = await rollups.lag();
    assert.ok(lag > 0, `${lag} s`);
    await rig.clock.advance({ seconds: 5 });
    assert.ok((await rollups.lag()) >= lag + 5);
    await rig.clock.advance({ seconds: 20 });
    assert.deepEqual([await count(), await rollups.lag()], [7, 0]);
  },
);

test("robots whose rollups cannot be written do not delay the others, and stay in the lag", TIMEOUT, async () => {
  await using of = await start();
  const { rig, plane, now } = of;
  const bad = await Promise.all(Array.from({ length: 3 }, () => of.robot()));
  for (const { robot_id } of bad) for (const i of [0, 1]) await of.store(robot_id, "cpu_percent", [[now + i, 1]]);
  const { robot_id } = await of.robot();
  await of.store(robot_id, "cpu_percent", [[now, 1]]);
  await plane.db.run(sql`alter table metric_rollup_position add constraint refused check (number < 2)`);
  await using rollups = await startSlowly(of);
  await rig.clock.advance({ minutes: 2 });
  assert.deepEqual(await of.totals(robot_id, now), [1, 1]);
  assert.ok((await rollups.lag()) >= 60);
});

/** Whether the partition of the day of `at` is in the result of a statement that ends with the column of its identifier. */
const isPartition = async (db: Db, at: number, statement: Statement<unknown>): Promise<boolean> => {
  const name = `metric_rollup_${new Date(at).toISOString().slice(0, 10).replaceAll("-", "")}`;
  return (await db.run(sql`${statement} = to_regclass(${name})`)) === 1;
};

test("drops rollups as whole days past their retention time", TIMEOUT, async () => {
  await using of = await start();
  const { rig, plane, now } = of;
  const retention = await startMetricRetention(plane);
  const { robot_id } = await of.robot();
  await of.store(robot_id, "cpu_percent", [[now, 1]]);
  await rollUpDue(plane);
  const hasPartition = () =>
    isPartition(plane.db, now, sql`select from pg_inherits where inhparent = 'metric_rollup'::regclass and inhrelid`);
  await rig.clock.advance({ hours: 89 * 24 });
  assert.deepEqual([await hasPartition(), await of.totals(robot_id, now)], [true, [1, 1]]);
  await rig.clock.advance({ hours: 3 * 24 });
  assert.deepEqual([await hasPartition(), await of.totals(robot_id, now)], [false, [0, 0]]);
  await retention.stop();
});

test("a day has a limited number of series: the stored ones, and the first of the others", () => {
  const samples = new DayOfSamples(0);
  const series = (name: string): Series => ({ name, labels: {}, times: [0], values: [1] });
  for (const name of ["new_1", "stored", "new_2", "new_3"]) samples.add(series(name));
  samples.limitSeries([series("stored"), series("stored_before")], 3);
  assert.deepEqual([...new Set(samples.rollups().map(({ name }) => name))].toSorted(), ["new_1", "stored"]);
});

test("rollups of a robot start with its oldest stored chunk if retention has deleted earlier ones", TIMEOUT, async () => {
  await using of = await start();
  const { plane, org_id, now } = of;
  const { robot_id } = await of.robot();
  await of.store(robot_id, "cpu_percent", [[now, 1]]);
  await of.store(robot_id, "cpu_percent", [[now + 1_000, 2]]);
  const far = 1_000_000;
  await plane.db.run(sql`update metric_chunk set number = number + ${far} where org_id = ${org_id}`);
  await plane.db.run(sql`update metric_position set last_number = last_number + ${far} where org_id = ${org_id}`);
  await rollUpDue(plane);
  assert.deepEqual(await of.totals(robot_id, now), [2, 3]);
});

test("a day is sorted once when it is two days old, and can then be changed", TIMEOUT, async () => {
  await using of = await start();
  const { rig, plane, now } = of;
  const retention = await startMetricRetention(plane);
  const { robot_id } = await of.robot();
  await of.store(robot_id, "cpu_percent", [[now, 1]]);
  await rollUpDue(plane);
  const isSorted = () => isPartition(plane.db, now, sql`select from pg_index where indisclustered and indrelid`);
  await rig.clock.advance({ hours: 24 });
  assert.deepEqual([await isSorted(), await of.totals(robot_id, now)], [false, [1, 1]]);
  await rig.clock.advance({ hours: 25 });
  assert.deepEqual([await isSorted(), await of.totals(robot_id, now)], [true, [1, 1]]);
  await of.store(robot_id, "cpu_percent", [[now + 1_000, 2]]);
  await rollUpDue(plane);
  assert.deepEqual(await of.totals(robot_id, now), [2, 3]);
  await retention.stop();
});

test("labels in another order are the same series, and a damaged chunk does not hide the next one", TIMEOUT, async () => {
  await using of = await start();
  const { plane, db, org_id, now } = of;
  const { robot_id } = await of.robot();
  const at = now - 3 * DAY_MS;
  await of.store(robot_id, "load", [[at, 1]], { a: "1", longer: "2" });
  await of.store(robot_id, "load", [[at + 1_000, 2]], { a: "1" });
  await of.store(robot_id, "load", [[at + 2_000, 3]], { longer: "2", a: "1" });
  await db.run(sql`update metric_chunk set chunk = '\\x00'::bytea where org_id = ${org_id} and robot_id = ${robot_id} and number = 2`);
  await rollUpDue(plane);
  assert.deepEqual(await of.totals(robot_id, at), [2, 4]);
  const rows = await rollupsOfRobot(db, org_id, robot_id, { since: new Date(at), until: new Date(at + 1), step_seconds: 300 });
  assert.deepEqual(
    rows.map(({ name, labels }) => ({ name, labels })),
    [{ name: "load", labels: { a: "1", longer: "2" } }],
  );
});

test("combines the robots of a scope by group, and shows counters as rates", TIMEOUT, async () => {
  await using of = await start();
  const { now } = of;
  const a = await of.robot();
  const b = await of.robot(a);
  const c = await of.robot();
  const since = now - HOUR_MS;
  for (const [robot, value] of [
    [a, 10],
    [b, 20],
    [c, 60],
  ] as const) {
    await of.store(robot.robot_id, "cpu_percent", [[since + MINUTE_MS, value]]);
    await of.store(
      robot.robot_id,
      "sent_total",
      [0, 1, 2, 3].map((i) => [since + i * 15 * MINUTE_MS, i * value * 900]),
    );
  }
  const period = { since: new Date(since).toISOString(), points: "4" };
  const groups = async (query: Record<string, string>, by?: string) =>
    (await of.query({ name: "cpu_percent", ...period, ...query }, by)).groups.map(({ id, robot_count, values }) => [
      id,
      robot_count,
      values[0],
    ]);
  assert.deepEqual(await groups({}), [[null, 3, 30]]);
  assert.deepEqual(await groups({ aggregation: "max" }), [[null, 3, 60]]);
  assert.deepEqual(await groups({ aggregation: "sum", site_id: a.site_id }), [[null, 2, 30]]);
  assert.deepEqual(await groups({ aggregation: "count" }), [[null, 3, 3]]);
  assert.deepEqual(await groups({ group_by: "robot", fleet_id: a.fleet_id }), [
    [b.robot_id, 1, 20],
    [a.robot_id, 1, 10],
  ]);
  assert.deepEqual(await groups({ group_by: "fleet" }), [
    [c.fleet_id, 1, 60],
    [a.fleet_id, 2, 15],
  ]);
  assert.deepEqual(await groups({ name: "unknown" }), []);
  const rates = await of.query({ name: "sent_total", aggregation: "sum", ...period });
  assert.deepEqual(rates.groups[0]?.values, [null, 90, 90, null]);
});

test(
  "parts of histograms and summaries are rates if a robot of the query sends such a metric; gauges with such names are not",
  TIMEOUT,
  async () => {
    await using of = await start();
    const [a, b] = [await of.robot(), await of.robot()];
    const since = of.now - HOUR_MS;
    const samples = [0, 1, 2, 3].map((i) => [since + i * 15 * MINUTE_MS, i * 900] as const);
    for (const [name, labels] of [
      ["plan_seconds_bucket", { le: "0.5" }],
      ["plan_seconds_count", {}],
      ["wait_seconds", { quantile: "0.9" }],
      ["wait_seconds_sum", {}],
      ["queue_count", {}],
      ["coal_bucket", { side: "left" }],
    ] as const)
      await of.store(a.robot_id, name, samples, labels);
    // Of this robot, the name alone proves nothing.
    await of.store(b.robot_id, "plan_seconds_count", samples);
    await rollUpDue(of.plane);
    const shown = async (name: string, query: Record<string, string> = {}) => {
      const { counter, groups } = await of.query({ name, since: new Date(since).toISOString(), points: "4", ...query });
      return [counter, groups[0]?.values];
    };
    const [rate, plain] = [[null, 1, 1, null], samples.map(([, value]) => value)];
    for (const name of ["plan_seconds_bucket", "plan_seconds_count", "wait_seconds_sum"])
      assert.deepEqual(await shown(name), [true, rate], name);
    for (const name of ["wait_seconds", "queue_count", "coal_bucket"]) assert.deepEqual(await shown(name), [false, plain], name);
    assert.deepEqual(await shown("plan_seconds_count", { robot_id: b.robot_id }), [false, plain]);
    assert.deepEqual(await shown("plan_seconds_count", { aggregation: "count" }), [true, [2, 2, 2, 2]]);
  },
);

test("a caller that is limited to a fleet, and another org, see no other robots", TIMEOUT, async () => {
  await using of = await start();
  const { rig, plane, org_id, token, now } = of;
  const [inside, outside] = [await of.robot(), await of.robot()];
  await of.store(inside.robot_id, "cpu_percent", [[now - MINUTE_MS, 1]]);
  await of.store(outside.robot_id, "cpu_percent", [[now - MINUTE_MS, 5]]);
  await of.store(outside.robot_id, "secret_level", [[now - MINUTE_MS, 5]]);
  await rollUpDue(plane);
  const limited = (
    await createCredential(plane.db, plane, { kind: "org", org_id, role: "viewer", label: "x", scopes: [{ fleet_id: inside.fleet_id }] })
  ).secret;
  assert.deepEqual(await of.names(), ["cpu_percent", "secret_level"]);
  assert.deepEqual(await of.names(limited), ["cpu_percent"]);
  const seen = await of.query({ name: "cpu_percent", group_by: "robot" }, limited);
  assert.deepEqual(
    seen.groups.map(({ id }) => id),
    [inside.robot_id],
  );
  // A robot outside is refused, also among others, as if it did not exist.
  const statusOf = async (robots: string[], by: string) => {
    const query = new URLSearchParams([["name", "cpu_percent"], ...robots.map((id) => ["robot_id", id] as [string, string])]);
    return (await rig.call("GET", `/api/metrics/query?${query.toString()}`, { token: by })).status;
  };
  const other = await rig.org();
  const asked = [[inside.robot_id], [outside.robot_id], [inside.robot_id, outside.robot_id]];
  assert.deepEqual(await Promise.all(asked.map((robots) => statusOf(robots, limited))), [200, 404, 404]);
  assert.deepEqual(await Promise.all(asked.map((robots) => statusOf(robots, token))), [200, 200, 200]);
  assert.deepEqual(await Promise.all(asked.map((robots) => statusOf(robots, other.token))), [404, 404, 404]);
  assert.deepEqual(await of.names(other.token), []);
  assert.deepEqual((await of.query({ name: "cpu_percent" }, other.token)).groups, []);
});

test("many robots or days are read with less detail", () => {
  const until = new Date(100 * DAY_MS);
  const of = (robots: number, days: number) =>
    resolutionOf({
      robots: Array.from({ length: robots }, String),
      since: new Date(until.getTime() - days * DAY_MS),
      until,
      raw_since: new Date(93 * DAY_MS),
    });
  assert.deepEqual([of(1, 7), of(1, 8), of(1, 92), of(1_000, 1 / 24), of(1_000, 1), of(1_000, 30)], ["raw", 300, 300, "raw", 300, 3_600]);
});
