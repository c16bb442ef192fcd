import assert from "node:assert/strict";
import { test } from "node:test";
import { ChunkError, encodeChunk, type Series } from "@roamfleet/protocol/link";
import { int, row, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { latestSamples, querySeries, startMetricRetention, storeSamples } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const HOUR_MS = 3_600_000;
const countRow = row({ n: int });

async function start() {
  const rig = await startFeaturePlane([]);
  const { plane } = rig;
  const { org_id } = await rig.org();
  const { robot_id } = await seedRobot(plane, org_id);
  const db = plane.db.forOrg(org_id);
  const now = plane.clock.now().getTime();
  return {
    rig,
    plane,
    org_id,
    robot_id,
    db,
    now,
    store: (seq: number, series: Series[], outbox_id = "spool-1") =>
      storeSamples(plane, org_id, robot_id, { outbox_id, seq, chunk: encodeChunk(series) }),
    query: (name: string, labels: Record<string, string> = {}, as = org_id) =>
      querySeries(plane.db.forOrg(as), as, { robot_id, name, labels, since: new Date(now - HOUR_MS), until: new Date(now + HOUR_MS) }),
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

test("returns stored samples by name, labels and time, and the latest ones", TIMEOUT, async () => {
  await using of = await start();
  const { now } = of;
  const disk = (mount: string, value: number): Series => seriesOf([now], [value], { name: "disk_used_bytes", labels: { mount } });
  await of.store(1, [seriesOf([now - 20_000, now - 10_000], [1.5, Number.NaN]), disk("/", 5), disk("/data", 6)]);
  await of.store(2, [seriesOf([now + 5_000, now], [3, 2])]);
  assert.deepEqual(await of.query("cpu_percent"), [seriesOf([now - 20_000, now - 10_000, now, now + 5_000], [1.5, Number.NaN, 2, 3])]);
  assert.deepEqual(await of.query("disk_used_bytes", { mount: "/data" }), [disk("/data", 6)]);
  assert.deepEqual(await of.query("disk_used_bytes", { mount: "/other" }), []);
  const latest = await latestSamples(of.db, of.org_id, { robot_ids: [of.robot_id, "rob_other"], since: new Date(now - HOUR_MS) });
  assert.deepEqual([...latest], [[of.robot_id, [{ name: "cpu_percent", labels: {}, at: new Date(now + 5_000), value: 3 }]]]);
  assert.equal((await latestSamples(of.db, of.org_id, { robot_ids: [of.robot_id], since: new Date(now + 60_000) })).size, 0);
});

test("does not return samples of another org", TIMEOUT, async () => {
  await using of = await start();
  const other = await of.rig.org();
  await of.store(1, [seriesOf([of.now], [1])]);
  assert.deepEqual(await of.query("cpu_percent", {}, other.org_id), []);
  const hidden = of.plane.db.forOrg(other.org_id);
  assert.equal((await hidden.one(sql(countRow)`select count(*)::int as n from metric_chunk where org_id = ${of.org_id}`)).n, 0);
  const latest = await latestSamples(hidden, of.org_id, { robot_ids: [of.robot_id], since: new Date(0) });
  assert.equal(latest.size, 0);
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
  await of.store(3, [seriesOf([now - 100 * HOUR_MS], [1])]);
  assert.equal(await of.dropped(), 7);
  assert.equal(await of.rows(), 2);
  await of.store(3, [seriesOf([now - 100 * HOUR_MS], [1])]);
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

test("drops samples past the retention time", TIMEOUT, async () => {
  await using of = await start();
  const retention = await startMetricRetention(of.plane);
  await of.store(1, [seriesOf([of.now], [1])]);
  await of.rig.clock.advance({ hours: 49 });
  assert.equal(await of.rows(), 1);
  await of.rig.clock.advance({ hours: 24 });
  assert.equal(await of.rows(), 0);
  await retention.stop();
});
