import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { LogRecordBody, ServerMessage } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { PlaneState } from "../../kernel/kernel-plane.ts";
import { LIMIT_DEFAULTS, type Limits } from "../../config.ts";
import { bigint, row, sql } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { explain } from "../testing/explain.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { ingestLogs, LogMatch, logRoutes, readBehind, readTail, startLogRetention } from "./index.ts";
import { toDelete } from "./quota.ts";
import { oldestBatches } from "./store-usage.ts";

const TIMEOUT = { timeout: 120_000 };

const record = (seq: number, message = `record ${seq}`): LogRecordBody => ({
  seq,
  at: "2030-01-01T00:00:00.000Z",
  level: "info",
  source: "nav2",
  message,
  fields: {},
});
const large = (seq: number): LogRecordBody => record(seq, randomBytes(1_000).toString("hex"));

async function startRig(limits: Partial<Limits>) {
  const it = await startFeaturePlane([logRoutes]);
  it.plane.settings = { ...it.plane.settings, limits: { ...LIMIT_DEFAULTS, ...limits } };
  return it;
}

/** Creates a robot with functions that send its logs and read the stored ones. */
async function robotIn(it: FeaturePlane, { org_id, token }: { org_id: string; token: string }) {
  const { robot_id } = await seedRobot(it.plane, org_id);
  const acked: number[] = [];
  const send = (message: ServerMessage): boolean => acked.push(message.type === "log_ack" ? message.seq : -1) > 0;
  const session: Session = { ...fakeSession(`sess_${robot_id}`, org_id, helloOf(robot_id, { outbox_id: "o" })), send };
  const log = (...records: LogRecordBody[]) => ingestLogs(it.plane, session, { type: "logs", records });
  const list = async (): Promise<LogRecord[]> =>
    (await it.call<{ items: LogRecord[] }>("GET", `/api/robots/${robot_id}/logs?limit=1000`, { token })).body.items;
  return { robot_id, session, acked, log, list, seqs: async () => (await list()).map(({ seq }) => seq) };
}

test("deletes only the logs of the robot that floods when its org exceeds its limit", TIMEOUT, async () => {
  await using it = await startRig({ log_bytes_per_org_max: 60_000, log_robot_share_percent: 100 });
  const org = await it.org({ role: "viewer" });
  const [flooding, ...fair] = [await robotIn(it, org), await robotIn(it, org), await robotIn(it, org)];
  // The oldest records of the org are those of the robots that do not flood.
  for (const robot of fair) for (let seq = 1; seq <= 3; seq += 1) await robot.log(large(seq));
  await it.clock.advance({ minutes: 30 });
  const retention = await startLogRetention(it.plane);
  for (let seq = 1; seq <= 60; seq += 1) await flooding.log(large(seq));
  const kept = async (): Promise<boolean> => (await flooding.seqs()).length < 45;
  await until("the flood's records to be deleted", kept, { meanwhile: () => it.clock.advance({ seconds: 10 }) });
  for (const robot of fair) assert.deepEqual(await robot.seqs(), [1, 2, 3]);
  const seqs = await flooding.seqs();
  assert.ok(seqs.length > 25, `${seqs.length} of the flood are kept: all that the others leave`);
  assert.deepEqual(
    seqs,
    Array.from({ length: seqs.length }, (_, i) => 61 - seqs.length + i),
  );
  await retention.stop();
});

test("one robot has at most its share of the org's log bytes, even below the org's limit", TIMEOUT, async () => {
  await using it = await startRig({ log_bytes_per_org_max: 60_000, log_robot_share_percent: 20 });
  const robot = await robotIn(it, await it.org({ role: "viewer" }));
  const retention = await startLogRetention(it.plane);
  for (let seq = 1; seq <= 20; seq += 1) await robot.log(large(seq));
  const fits = async (): Promise<boolean> => (await robot.seqs()).length <= 9;
  await until("its oldest to be deleted", fits, { meanwhile: () => it.clock.advance({ seconds: 30 }) });
  assert.ok((await robot.seqs()).length >= 6);
  await retention.stop();
});

test("an org whose logs cannot be deleted is retried without delaying the deletion for other orgs", TIMEOUT, async () => {
  await using it = await startRig({ log_bytes_per_org_max: 10_000, log_robot_share_percent: 100 });
  const orgs = [await it.org({ role: "viewer" }), await it.org({ role: "viewer" })];
  const robots = await Promise.all(orgs.map((org) => robotIn(it, org)));
  // The broken org sorts first, so that it is processed first.
  const [broken, other] = (orgs[0]?.org_id ?? "") < (orgs[1]?.org_id ?? "") ? [0, 1] : [1, 0];
  const refuse = robots[broken]?.robot_id ?? "";
  await it.plane.db.run(sql`create table refused (robot_id text)`);
  await it.plane.db.run(sql`insert into refused values (${refuse})`);
  await it.plane.db.run(sql`grant select on refused to pg_database_owner`);
  await it.plane.db.run(sql`
    create function refuse() returns trigger language plpgsql as
      'begin if old.robot_id in (select robot_id from refused) then raise exception ''refused''; end if; return old; end'`);
  await it.plane.db.run(sql`create trigger refuse before delete on log_batch for each row execute function refuse()`);
  const retention = await startLogRetention(it.plane);
  for (const robot of robots) for (let seq = 1; seq <= 12; seq += 1) await robot.log(large(seq));
  const count = async (i: number): Promise<number> => (await robots[i]?.seqs())?.length ?? 0;
  const advance = { meanwhile: () => it.clock.advance({ seconds: 10 }) };
  await until("the other org's logs to be deleted", async () => (await count(other)) < 12, advance);
  assert.equal(await count(broken), 12);
  await it.plane.db.run(sql`drop trigger refuse on log_batch`);
  await until("the first org's logs to be deleted", async () => (await count(broken)) < 12, advance);
  await retention.stop();
});

test("counts log bytes that older versions stored without a count per robot", TIMEOUT, async () => {
  await using it = await startRig({ log_bytes_per_org_max: 10_000, log_robot_share_percent: 100 });
  const org = await it.org({ role: "viewer" });
  const robot = await robotIn(it, org);
  const first = await startLogRetention(it.plane);
  for (let seq = 1; seq <= 6; seq += 1) await robot.log(large(seq));
  await first.stop();
  await it.plane.db.run(sql`delete from log_robot_usage`);
  const retention = await startLogRetention(it.plane);
  for (let seq = 7; seq <= 12; seq += 1) await robot.log(large(seq));
  const advance = { meanwhile: () => it.clock.advance({ seconds: 10 }) };
  await until("room", async () => (await robot.seqs()).length <= 7, advance);
  await retention.stop();
  const bytesRow = row({ counted: bigint, stored: bigint });
  const { counted, stored } = await it.plane.db.one(sql(bytesRow)`
    select (select sum(bytes)::bigint from log_robot_usage where org_id = ${org.org_id}) as counted,
      (select sum(octet_length(records) + 200)::bigint from log_batch where org_id = ${org.org_id}) as stored`);
  assert.equal(counted, stored);
});

test("finds a robot's oldest log records without reading those of other robots", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  await plane.db.run(sql`
    insert into log_batch (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
    select 'org_a', 'rob_' || n % 200, n, n, at, at, at, 1, 'deflate', 'x'
    from generate_series(1, 20000) n cross join lateral (select ${plane.clock.now()}::timestamptz + n * interval '1 second') as t (at)`);
  await plane.db.run(sql`analyze log_batch`);
  const { rows } = await explain(plane.db, (db) => oldestBatches(db, "org_a", "rob_7", 50));
  assert.ok(rows <= 60, `${rows} rows`);
});

test("deletes logs of the robots with most log bytes until the org is within its limit", () => {
  const robots = [100, 60, 30, 10].map((bytes, i) => ({ robot_id: `r${i}`, bytes }));
  assert.deepEqual(toDelete(robots, { bytes_max: 200, robot_max: 200 }), []);
  assert.deepEqual(toDelete(robots, { bytes_max: 200, robot_max: 80 }), [{ robot_id: "r0", bytes: 24 }]);
  // 114 bytes remain: 10, 30, 37 and 37.
  assert.deepEqual(toDelete(robots, { bytes_max: 120, robot_max: 120 }), [
    { robot_id: "r0", bytes: 63 },
    { robot_id: "r1", bytes: 23 },
  ]);
  // 19 bytes remain, 4.75 for each robot.
  assert.deepEqual(
    toDelete(robots, { bytes_max: 20, robot_max: 20 }).map(({ bytes }) => bytes),
    [96, 56, 26, 6],
  );
});

test("delays the acknowledgments of records above a robot's rate, but not those of other robots", TIMEOUT, async () => {
  await using it = await startRig({ log_bytes_per_robot_per_second: 1_000, log_burst_bytes_per_robot: 20_000 });
  const org = await it.org({ role: "viewer" });
  const [flooding, fair] = [await robotIn(it, org), await robotIn(it, org)];
  for (let seq = 1; seq <= 50; seq += 1) await flooding.log(large(seq));
  const paid = flooding.acked.length;
  assert.ok(paid >= 4 && paid <= 8, `${paid} flushes of 3 KiB fit into 20 kB`);
  await fair.log(record(1));
  assert.deepEqual(fair.acked, [1]);
  // An agent sends again after 30 s without an acknowledgment, so some of the records are acknowledged earlier.
  await it.clock.advance({ seconds: 20 });
  const meanwhile = flooding.acked.at(-1) ?? 0;
  assert.ok(meanwhile > paid && meanwhile < 30, `${meanwhile} acknowledged after 20 s`);
  // Repeated records are not stored twice and do not advance the acknowledgement.
  await flooding.log(large(49), large(50));
  assert.ok((flooding.acked.at(-1) ?? 0) < 30);
  await it.clock.advance({ minutes: 4 });
  assert.equal(flooding.acked.at(-1), 50);
  assert.deepEqual(
    flooding.acked,
    flooding.acked.toSorted((a, b) => a - b),
  );
  assert.deepEqual(
    await flooding.seqs(),
    Array.from({ length: 50 }, (_, i) => i + 1),
    "none is missing",
  );
  assert.deepEqual(await fair.seqs(), [1]);
  assert.match(await it.plane.metrics.registry.metrics(), /roamfleet_log_acks_delayed_total 1\n/);
});

test("pauses reading from a robot that sends without waiting for acknowledgments", TIMEOUT, async () => {
  await using it = await startRig({ log_bytes_per_robot_per_second: 100_000, log_burst_bytes_per_robot: 100_000 });
  const robot = await robotIn(it, await it.org({ role: "viewer" }));
  const pauses: number[] = [];
  robot.session.pauseReading = (ms) => void pauses.push(ms);
  const flush = (seq: number): LogRecordBody[] => [record(seq, "x".repeat(200_000))];
  // A burst of 100 kB, plus 4 MiB that may be unacknowledged.
  for (let seq = 1; seq <= 21; seq += 1) await robot.log(...flush(seq));
  assert.deepEqual(pauses, []);
  for (let seq = 22; seq <= 30; seq += 1) await robot.log(...flush(seq));
  assert.ok(pauses.length >= 7 && (pauses.at(-1) ?? 0) > 14_000, pauses.join(" "));
});

test("a resumed log reader misses no record when the robot moves to a server whose clock is behind", TIMEOUT, async () => {
  await using it = await startRig({});
  const { plane } = it;
  const org = await it.org({ role: "viewer" });
  const { robot_id, session, seqs } = await robotIn(it, org);
  const behind = {
    ...plane,
    state: new PlaneState(),
    clock: new SimulatedClock({ at: new Date(it.clock.now().getTime() - 3_600_000).toISOString() }),
  };
  const match = new LogMatch({ since: undefined, until: undefined, level: undefined, source: undefined, q: undefined });
  const db = plane.db.forOrg(org.org_id);
  await ingestLogs(plane, session, { type: "logs", records: [record(1), record(2)] });
  const { end } = await readTail(db, org.org_id, robot_id, match, 10);
  const [moved, restarted] = [
    { ...session, id: "sess_moved" },
    { ...session, id: "sess_3", hello: { ...session.hello, outbox_id: "new" } },
  ];
  await ingestLogs(behind, moved, { type: "logs", records: [record(3)] });
  await ingestLogs(behind, restarted, { type: "logs", records: [record(1), record(2)] });
  const read = await readBehind(db, org.org_id, robot_id, end, match);
  assert.deepEqual(
    read.batches.flatMap(({ lines }) => lines.map((line) => (JSON.parse(line) as LogRecord).seq)),
    [3, 1, 2],
  );
  assert.deepEqual(await seqs(), [1, 2, 3, 1, 2]);
});
