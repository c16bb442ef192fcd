import assert from "node:assert/strict";
import { test } from "node:test";
import { CHUNK_BYTES_MAX, ChunkError, encodeChunk, type Series } from "@roamfleet/protocol/link";
import type { RobotMetrics } from "@roamfleet/protocol/routes";
import { int, row, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { CHUNK_RATE } from "./ingest.ts";
import { metricRoutes, startMetricRetention, storeSamples, takeSamples } from "./index.ts";
import { queryMetrics, readSeries, SERIES_SHOWN_MAX } from "./read.ts";

const TIMEOUT = { timeout: 120_000 };
const HOUR_MS = 3_600_000;
const countRow = row({ n: int });

async function start() {
  const rig = await startFeaturePlane([metricRoutes]);
  const { plane } = rig;
  const { org_id, token } = await rig.org();
  const { robot_id } = await seedRobot(plane, org_id);
  const db = plane.db.forOrg(org_id);
  const now = plane.clock.now().getTime();
  return {
    rig,
    plane,
    org_id,
    token,
    robot_id,
    db,
    now,
    store: (seq: number, series: Series[], outbox_id = "spool-1") =>
      storeSamples(plane, org_id, robot_id, { outbox_id, seq, chunk: encodeChunk(series) }),
    /** Returns the samples of the metric in the hour before and after, in intervals of a second. */
    query: async (name: string, as = org_id): Promise<Series[]> => {
      const since = new Date(now - HOUR_MS);
      const period = { since, until: new Date(now + HOUR_MS), points: (2 * HOUR_MS) / 1_000, raw_since: since };
      const { series } = await readSeries(plane.db.forOrg(as), as, { robots: [robot_id], names: new Set([name]), ...period });
      return series.map(({ labels, intervals }) => {
        const filled = intervals
          .values()
          .mean.flatMap((value, at) => (value === null ? [] : [{ value, time: since.getTime() + at * 1_000 }]));
        return { name, labels, times: filled.map(({ time }) => time), values: filled.map(({ value }) => value) };
      });
    },
    rows: async () => (await db.one(sql(countRow)`select count(*)::int as n from metric_chunk where org_id = ${org_id}`)).n,
    dropped: async () =>
      (
        await db.one(
          sql(countRow)`select dropped_samples::int as n from metric_position where org_id = ${org_id} and robot_id = ${robot_id}`,
        )
      ).n,
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

const seriesOf = (times: number[], values: number[], more: Partial<Series> = {}): Series => ({
  name: "cpu_percent",
  labels: {},
  times,
  values,
  ...more,
});

test("returns stored samples by name and labels, in the order of their times", TIMEOUT, async () => {
  await using of = await start();
  const { now } = of;
  const disk = (mount: string, value: number): Series => seriesOf([now], [value], { name: "disk_used_bytes", labels: { mount } });
  await of.store(1, [seriesOf([now - 20_000, now - 10_000], [1.5, Number.NaN]), disk("/", 5), disk("/data", 6)]);
  await of.store(2, [seriesOf([now + 5_000, now], [3, 2])]);
  assert.deepEqual(await of.query("cpu_percent"), [seriesOf([now - 20_000, now, now + 5_000], [1.5, 2, 3])]);
  assert.deepEqual(await of.query("disk_used_bytes"), [disk("/", 5), disk("/data", 6)]);
  assert.deepEqual(await of.query("other"), []);
});

test("returns the average, lowest and highest sample of each interval, and null where there is none", TIMEOUT, async () => {
  await using of = await start();
  const { now, db, org_id, robot_id } = of;
  await of.store(1, [seriesOf([now, now + 1_000, now + 9_999, now + 30_000], [1, 2, 6, 5])]);
  const period = { since: new Date(now), until: new Date(now + 40_000), points: 4, raw_since: new Date(now) };
  const { series } = await queryMetrics(db, org_id, { robot_id, names: undefined, ...period });
  const [first] = series;
  assert.deepEqual(first, {
    name: "cpu_percent",
    labels: {},
    mean: [3, null, null, 5],
    min: [1, null, null, 5],
    max: [6, null, null, 5],
  });
});

test("returns at most a number of series, and counts the others", TIMEOUT, async () => {
  await using of = await start();
  const { now, rig, token, robot_id } = of;
  await of.store(
    1,
    Array.from({ length: SERIES_SHOWN_MAX + 7 }, (_, i) => seriesOf([now], [i], { name: `value_${i}` })),
  );
  const until = new Date(now + 1_000).toISOString();
  const path = `/api/robots/${robot_id}/metrics?until=${until}`;
  const { data } = (await rig.call<{ data: RobotMetrics }>("GET", path, { token })).body;
  assert.deepEqual([data.series.length, data.omitted_series], [SERIES_SHOWN_MAX, 7]);
});

test("does not return samples of another org", TIMEOUT, async () => {
  await using of = await start();
  const other = await of.rig.org();
  await of.store(1, [seriesOf([of.now], [1])]);
  assert.deepEqual(await of.query("cpu_percent", other.org_id), []);
  const hidden = of.plane.db.forOrg(other.org_id);
  assert.equal((await hidden.one(sql(countRow)`select count(*)::int as n from metric_chunk where org_id = ${of.org_id}`)).n, 0);
});

test("stores each chunk once, also after a reconnect or a restored disk", TIMEOUT, async () => {
  await using of = await start();
  const chunk = [seriesOf([of.now], [1])];
  await of.store(1, chunk);
  await of.store(2, [seriesOf([of.now + 1_000], [2])]);
  await Promise.all([of.store(1, chunk), of.store(2, chunk)]);
  assert.equal(await of.rows(), 2);
  await of.store(1, chunk, "spool-2");
  assert.equal(await of.rows(), 2);
  await of.store(2, [seriesOf([of.now + 2_000], [3])], "spool-2");
  assert.equal(await of.rows(), 3);
});

test("counts samples that exceed a bound, and stores the others", TIMEOUT, async () => {
  await using of = await start();
  const { now } = of;
  const max = of.plane.settings.limits.metric_series_per_robot_max;
  const many = Array.from({ length: max + 3 }, (_, i) => seriesOf([now], [i], { name: `value_${i}` }));
  await of.store(1, [seriesOf([now], [1], { name: "not a name" }), ...many]);
  assert.equal(await of.dropped(), 4);
  assert.equal((await of.query(`value_${max - 1}`)).length, 1);
  assert.deepEqual(await of.query(`value_${max}`), []);
  // A clock that is ahead, samples past the retention time, and a chunk of more than an hour.
  await of.store(2, [seriesOf([now - 2 * HOUR_MS, now, now + HOUR_MS], [1, 2, 3])]);
  assert.equal(await of.dropped(), 6);
  assert.deepEqual(await of.query("cpu_percent"), [seriesOf([now], [2])]);
  await of.store(3, [seriesOf([now - 200 * HOUR_MS], [1])]);
  assert.equal(await of.dropped(), 7);
  assert.equal(await of.rows(), 2);
  await of.store(3, [seriesOf([now - 200 * HOUR_MS], [1])]);
  assert.equal(await of.dropped(), 7, "a repeated chunk is not counted again");
});

test("refuses a damaged chunk, and reads past one in the database", TIMEOUT, async () => {
  await using of = await start();
  const sent = { outbox_id: "spool-1", seq: 1, chunk: Buffer.from("no chunk") };
  await assert.rejects(storeSamples(of.plane, of.org_id, of.robot_id, sent), ChunkError);
  await of.store(1, [seriesOf([of.now], [1])]);
  await of.store(2, [seriesOf([of.now + 1_000], [2])]);
  await of.db.run(sql`update metric_chunk set chunk = '\\x00ff'::bytea where org_id = ${of.org_id} and seq = 1`);
  assert.deepEqual(await of.query("cpu_percent"), [seriesOf([of.now + 1_000], [2])]);
});

test("acknowledges a chunk when it is stored, and a damaged one too", TIMEOUT, async () => {
  await using of = await start();
  const { plane, org_id, robot_id } = of;
  const acked: unknown[] = [];
  const session = { ...fakeSession("sess_1", org_id, helloOf(robot_id)), send: (message: unknown) => acked.push(message) > 0 };
  const send = (seq: number, chunk: Buffer) =>
    takeSamples(plane, session, { type: "samples", spool_id: "spool-1", seq, chunk: chunk.toString("base64") });
  await send(1, Buffer.from("no chunk"));
  await send(2, encodeChunk([seriesOf([of.now], [1])]));
  assert.deepEqual(
    acked,
    [1, 2].map((seq) => ({ type: "samples_ack", spool_id: "spool-1", seq })),
  );
  assert.equal(await of.rows(), 1);
  assert.match(await plane.metrics.registry.metrics(), /roamfleet_metric_samples_dropped_total\{reason="damaged"\} 1/);
});

test("a robot that sends too many chunks is read more slowly, and others are not", TIMEOUT, async () => {
  await using of = await start();
  const { plane, org_id, robot_id } = of;
  let paused_ms = 0;
  const session = { ...fakeSession("sess_1", org_id, helloOf(robot_id)), pauseReading: (ms: number) => void (paused_ms = ms) };
  const chunk = Buffer.alloc(CHUNK_BYTES_MAX).toString("base64");
  let sent = 0;
  for (; paused_ms === 0 && sent < 1_000; sent += 1)
    await takeSamples(plane, session, { type: "samples", spool_id: "spool-1", seq: sent + 1, chunk });
  assert.equal(sent, Math.ceil(CHUNK_RATE.burst / (CHUNK_BYTES_MAX + 1_024)));
  assert.ok(paused_ms > 0 && paused_ms <= ((CHUNK_BYTES_MAX + 1_024) * 60_000) / CHUNK_RATE.per_minute);
  const other = { ...fakeSession("sess_2", org_id, helloOf("rob_other")), pauseReading: () => assert.fail("paused") };
  await takeSamples(plane, other, { type: "samples", spool_id: "spool-1", seq: 1, chunk });
});

test("drops samples past the retention time", TIMEOUT, async () => {
  await using of = await start();
  const retention = await startMetricRetention(of.plane);
  await of.store(1, [seriesOf([of.now], [1])]);
  await of.rig.clock.advance({ hours: 7 * 24 + 1 });
  assert.equal(await of.rows(), 1);
  await of.rig.clock.advance({ hours: 24 });
  assert.equal(await of.rows(), 0);
  await retention.stop();
});
