import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { LogRecordBody, ServerMessage } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { bigint, row, sql, text } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import {
  followLogs,
  ingestLogs,
  LogMatch,
  logPosition,
  logRoutes,
  readBehind,
  readTail,
  resumeFollowing,
  startLogRetention,
} from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type List = { items: LogRecord[]; next_cursor: string | null };

const record = (seq: number, extra: Partial<LogRecordBody> = {}): LogRecordBody => ({
  seq,
  at: new Date(Date.parse("2030-01-01T00:00:00Z") + seq * 1_000).toISOString(),
  level: "info",
  source: "nav2",
  message: `record ${seq}`,
  fields: {},
  ...extra,
});
const records = (from: number, to: number): LogRecordBody[] => Array.from({ length: to - from + 1 }, (_, i) => record(from + i));
const flush = (list: LogRecordBody[]) => ({ type: "logs" as const, records: list });
const seqs = (list: readonly { seq: number }[]): number[] => list.map(({ seq }) => seq);
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

async function startRig() {
  const sessions = new Map<string, Session>();
  const rig = await startFeaturePlane([logRoutes], { sessions });
  const { org_id, token } = await rig.org({ role: "viewer" });
  const { robot_id, ...place } = await seedRobot(rig.plane, org_id);
  let count = 0;
  /** Opens a link of the robot, which replaces the previous one. */
  const link = (outbox_id = "outbox-1", of = robot_id) => {
    const sent: ServerMessage[] = [];
    const session = {
      ...fakeSession(`sess_${(count += 1)}`, org_id, helloOf(of, { outbox_id })),
      send: (message: ServerMessage) => sent.push(message) > 0,
    };
    sessions.set(of, session);
    return { session, sent };
  };
  return { rig, plane: rig.plane, sessions, org_id, token, robot_id, place, link };
}

const listLogs = async (rig: FeaturePlane, token: string, path: string): Promise<List> => {
  const { status, body } = await rig.call<List>("GET", path, { token });
  assert.equal(status, 200, JSON.stringify(body));
  return body;
};

test("stores repeated and overlapping log records once, and accepts gaps in their numbers", TIMEOUT, async () => {
  const { rig, plane, org_id, token, robot_id, link } = await startRig();
  await using _ = rig;
  const first = link();
  await ingestLogs(plane, first.session, flush(records(1, 5)));
  await ingestLogs(plane, first.session, flush(records(3, 7)));
  await ingestLogs(plane, first.session, flush(records(2, 6)));
  assert.deepEqual(
    first.sent,
    [5, 7, 7].map((seq) => ({ type: "log_ack", seq })),
  );
  const second = link();
  await ingestLogs(plane, second.session, flush([...records(1, 8), ...records(20, 21)]));
  assert.deepEqual(second.sent, [{ type: "log_ack", seq: 21 }]);
  const { items, next_cursor } = await listLogs(rig, token, `/api/robots/${robot_id}/logs`);
  assert.deepEqual(seqs(items), [...range(1, 8), 20, 21]);
  assert.equal(next_cursor, null);
  assert.deepEqual(items[0], { robot_id, received_at: "2030-01-01T00:00:00.000Z", ...record(1) });
  assert.equal(await logPosition(plane.db, org_id, robot_id, "outbox-1"), 21);
  assert.match(await plane.metrics.registry.metrics(), /roamfleet_log_records_total 10/);
});

test("stores each log record once if two links of a robot send it concurrently", TIMEOUT, async () => {
  const { rig, plane, token, robot_id, link } = await startRig();
  await using _ = rig;
  const [older, newer] = [link(), link()];
  // Both links have a cached log position of 0. For each position, the database accepts only one write.
  await ingestLogs(plane, newer.session, flush(records(1, 1)));
  await Promise.all(
    [1, 2, 3, 4].flatMap((n) => [older, newer].map(({ session }) => ingestLogs(plane, session, flush(records(1, n * 10))))),
  );
  const { items } = await listLogs(rig, token, `/api/robots/${robot_id}/logs`);
  assert.deepEqual(seqs(items), range(1, 40));
});

test("one stale batch does not affect the other robots' log batches in the same statement", TIMEOUT, async () => {
  const { rig, plane, org_id, token, robot_id, place, link } = await startRig();
  await using _ = rig;
  const others = await Promise.all([1, 2, 3, 4].map(() => seedRobot(plane, org_id, place)));
  const links = [robot_id, ...others.map((other) => other.robot_id)].map((id) => link("outbox-1", id));
  // Advance the third robot's log position over another link, and delete the fifth robot.
  await ingestLogs(plane, links[2]!.session, flush(records(1, 2)));
  const stale = link("outbox-1", others[1]!.robot_id);
  await ingestLogs(plane, stale.session, flush(records(3, 4)));
  await plane.db.run(sql`delete from robot where org_id = ${org_id} and id = ${others[3]!.robot_id}`);
  const flushed = await Promise.allSettled(
    links.map(({ session }, i) => ingestLogs(plane, session, flush(records(1, 5).map((one) => ({ ...one, message: `of ${i}` }))))),
  );
  assert.deepEqual(
    flushed.map(({ status }) => status),
    ["fulfilled", "fulfilled", "fulfilled", "fulfilled", "rejected"],
  );
  for (const [i, { session, sent }] of links.slice(0, 4).entries()) {
    assert.deepEqual(sent.at(-1), { type: "log_ack", seq: 5 });
    const { items } = await listLogs(rig, token, `/api/robots/${session.robot_id}/logs`);
    assert.deepEqual(seqs(items), range(1, 5));
    assert.equal(items.at(-1)?.message, `of ${i}`);
  }
});

test("log record numbers restart with a new spool, and a replaced link does not reset the position", TIMEOUT, async () => {
  const { rig, plane, org_id, token, robot_id, link } = await startRig();
  await using _ = rig;
  const old = link("outbox-1");
  await ingestLogs(plane, old.session, flush(records(1, 3)));
  const fresh = link("outbox-2");
  assert.equal(await logPosition(plane.db, org_id, robot_id, "outbox-2"), 0);
  await rig.clock.advance({ seconds: 1 });
  await ingestLogs(plane, fresh.session, flush(records(1, 2)));
  await ingestLogs(plane, old.session, flush(records(4, 5)));
  assert.deepEqual(old.sent, [{ type: "log_ack", seq: 3 }]);
  assert.deepEqual(seqs((await listLogs(rig, token, `/api/robots/${robot_id}/logs`)).items), [1, 2, 3, 1, 2]);
});

test("replaces invalid log times by the time of receipt, and stores others in UTC with milliseconds", TIMEOUT, async () => {
  const { rig, plane, token, robot_id, link } = await startRig();
  await using _ = rig;
  const times = [
    "yesterday",
    "2029-12-31T23:00:00+02:00",
    "+200000-01-01T00:00:00.000Z",
    "2029-12-31T00:00:00.123456Z",
    "2029-02-31T99:00:00.000Z",
  ];
  await ingestLogs(plane, link().session, flush(times.map((at, i) => record(i + 1, { at }))));
  const { items } = await listLogs(rig, token, `/api/robots/${robot_id}/logs`);
  const now = "2030-01-01T00:00:00.000Z";
  assert.deepEqual(
    items.map(({ at }) => at),
    [now, "2029-12-31T21:00:00.000Z", now, "2029-12-31T00:00:00.123Z", now],
  );
});

test("returns the latest 200 log records, oldest first, and pages back to the first record", TIMEOUT, async () => {
  const { rig, plane, token, robot_id, link } = await startRig();
  await using _ = rig;
  const { session } = link();
  for (let from = 1; from <= 1_500; from += 50) await ingestLogs(plane, session, flush(records(from, from + 49)));
  const first = await listLogs(rig, token, `/api/robots/${robot_id}/logs`);
  assert.deepEqual(seqs(first.items), range(1_301, 1_500));
  await ingestLogs(plane, session, flush(records(1_501, 1_510)));
  let [cursor, seen] = [first.next_cursor, seqs(first.items)];
  while (cursor !== null) {
    const page = await listLogs(rig, token, `/api/robots/${robot_id}/logs?limit=333&cursor=${cursor}`);
    [cursor, seen] = [page.next_cursor, [...seqs(page.items), ...seen]];
  }
  assert.deepEqual(seen, range(1, 1_500));
  const whole = await listLogs(rig, token, `/api/robots/${robot_id}/logs?limit=1000`);
  assert.deepEqual(seqs(whole.items), range(511, 1_510));
  assert.equal((await rig.call("GET", `/api/robots/${robot_id}/logs?level=warn&cursor=${first.next_cursor}`, { token })).status, 400);
});

test("stores and returns a large batch of log records completely", TIMEOUT, async () => {
  const { rig, plane, token, robot_id, link } = await startRig();
  await using _ = rig;
  const large = range(1, 1_000).map((seq) => record(seq, { message: `${seq} ${"é".repeat(500)}`, fields: { seq, deep: [{ a: null }] } }));
  await ingestLogs(plane, link().session, flush(large));
  const { items } = await listLogs(rig, token, `/api/robots/${robot_id}/logs?limit=1000`);
  assert.deepEqual(
    items.map(({ robot_id: _id, received_at: _at, ...body }) => body),
    large,
  );
});

test("filters a log by time, minimum level, source and case-insensitive text", TIMEOUT, async () => {
  const { rig, plane, token, robot_id, link } = await startRig();
  await using _ = rig;
  const levels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;
  await ingestLogs(
    plane,
    link().session,
    flush(levels.map((level, i) => record(i + 1, { level, source: i % 2 === 0 ? "nav2" : "camera", message: `Größe ${level}` }))),
  );
  const found = async (query: string) => seqs((await listLogs(rig, token, `/api/robots/${robot_id}/logs?${query}`)).items);
  assert.deepEqual(await found("level=warn"), [4, 5, 6]);
  assert.deepEqual(await found("source=camera"), [2, 4, 6]);
  assert.deepEqual(await found(`q=${encodeURIComponent("GRÖSSE".replace("SS", "ß"))}`), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(await found("q=ERR"), [5]);
  assert.deepEqual(await found("since=2030-01-01T00:00:03Z&until=2030-01-01T00:00:05Z"), [3, 4]);
  assert.deepEqual(await found("level=warn&source=nav2&limit=1"), [5]);
  assert.equal((await rig.call("GET", `/api/robots/${robot_id}/logs?level=loud`, { token })).status, 400);
});

test("merges the logs of a fleet's robots by time, and pages back across days without logs", TIMEOUT, async () => {
  const { rig, plane, org_id, token, robot_id, place, link } = await startRig();
  await using _ = rig;
  const second = (await seedRobot(plane, org_id, place)).robot_id;
  const elsewhere = (await seedRobot(plane, org_id)).robot_id;
  const [a, b, c] = [link(), link("outbox-b", second), link("outbox-c", elsewhere)];
  for (const step of [{ days: 5 }, { seconds: 1 }, { seconds: 1 }]) {
    await rig.clock.advance(step);
    const now = plane.clock.now().getTime();
    const next = async ({ session }: typeof a, first: number, offset_ms: number) =>
      ingestLogs(
        plane,
        session,
        flush(range(first, first + 99).map((seq, i) => record(seq, { at: new Date(now + i * 2 + offset_ms).toISOString() }))),
      );
    const first = 1 + Math.floor((now % 100_000) / 1_000) * 100;
    for (const [i, one] of [a, b, c].entries()) await next(one, first, i % 2);
  }
  const latest = await listLogs(rig, token, `/api/fleets/${place.fleet_id}/logs`);
  assert.equal(latest.items.length, 200);
  assert.deepEqual(
    latest.items.slice(0, 4).map((item) => item.robot_id),
    [robot_id, second, robot_id, second],
  );
  let [cursor, seen] = [latest.next_cursor, latest.items];
  while (cursor !== null) {
    const page = await listLogs(rig, token, `/api/fleets/${place.fleet_id}/logs?limit=150&cursor=${cursor}`);
    [cursor, seen] = [page.next_cursor, [...page.items, ...seen]];
  }
  assert.equal(new Set(seen.map((item) => `${item.robot_id}/${item.seq}`)).size, 600);
  assert.deepEqual(new Set(seen.map((item) => item.robot_id)), new Set([robot_id, second]));
  assert.equal(seen.length, 600);
});

test("returns 404 for the logs of another org's robot or fleet", TIMEOUT, async () => {
  const { rig, robot_id, place } = await startRig();
  await using _ = rig;
  const other = await rig.org();
  assert.equal((await rig.call("GET", `/api/robots/${robot_id}/logs`, { token: other.token })).status, 404);
  assert.equal((await rig.call("GET", `/api/fleets/${place.fleet_id}/logs`, { token: other.token })).status, 404);
});

test("requests live logs from a robot from its first follower until the last one leaves", TIMEOUT, async () => {
  const { rig, plane, org_id, robot_id, link } = await startRig();
  await using _ = rig;
  const follows = ({ sent }: { sent: ServerMessage[] }) => sent.filter(({ type }) => type === "log_follow");
  const first = link();
  const heard: string[] = [];
  const end = followLogs(plane, org_id, robot_id, ({ records: list }) => heard.push(`a${list[0]?.seq}`));
  const end_other = followLogs(plane, org_id, robot_id, ({ records: list }) => heard.push(`b${list[0]?.seq}`));
  assert.deepEqual(follows(first), [{ type: "log_follow", on: true }]);
  const second = link();
  resumeFollowing(plane, second.session);
  await ingestLogs(plane, second.session, flush([record(1)]));
  const third = link();
  await ingestLogs(plane, third.session, flush([record(2)]));
  assert.deepEqual([follows(second), follows(third)], [[{ type: "log_follow", on: true }], [{ type: "log_follow", on: true }]]);
  end();
  end();
  await ingestLogs(plane, third.session, flush([record(3)]));
  end_other();
  await ingestLogs(plane, third.session, flush([record(4)]));
  assert.deepEqual(follows(third), [
    { type: "log_follow", on: true },
    { type: "log_follow", on: false },
  ]);
  assert.deepEqual(heard, ["a1", "b1", "a2", "b2", "b3"]);
});

const ALL = new LogMatch({ since: undefined, until: undefined, level: undefined, source: undefined, q: undefined });

test("the tail of a log and the records after it neither overlap nor have a gap", TIMEOUT, async () => {
  const { rig, plane, org_id, robot_id, link } = await startRig();
  await using _ = rig;
  assert.deepEqual(await readTail(plane.db, org_id, robot_id, ALL, 3), { records: [], end: undefined });
  const { session } = link();
  await ingestLogs(plane, session, flush(records(1, 2)));
  await ingestLogs(plane, session, flush(records(3, 4)));
  const tail = await readTail(plane.db, org_id, robot_id, ALL, 3);
  assert.deepEqual(seqs(tail.records), [2, 3, 4]);
  assert.deepEqual(await readBehind(plane.db, org_id, robot_id, tail.end, ALL), { batches: [], more: false });
  for (let seq = 5; seq < 105; seq += 1) await ingestLogs(plane, session, flush([record(seq)]));
  const found: number[] = [];
  let [behind, more] = [tail.end, true];
  while (more) {
    const read = await readBehind(plane.db, org_id, robot_id, behind, ALL);
    found.push(...read.batches.flatMap(({ lines }) => lines.map((line) => (JSON.parse(line) as LogRecordBody).seq)));
    more = read.more;
    behind = read.batches.at(-1)?.end ?? behind;
  }
  assert.deepEqual(found, range(5, 104));
});

const partitions = async ({ plane }: FeaturePlane): Promise<string[]> =>
  (
    await plane.db.many(sql(row({ name: text }))`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'log_batch'::regclass order by 1`)
  ).map(({ name }) => name.replace("log_batch_", ""));

test("creates log partitions for a week, moves rows of the default partition and drops old partitions", TIMEOUT, async () => {
  const { rig, plane, token, robot_id, link } = await startRig();
  await using _ = rig;
  const { session } = link();
  await ingestLogs(plane, session, flush(records(1, 3)));
  const nodes = await Promise.all([startLogRetention(plane), startLogRetention(plane)]);
  assert.deepEqual(await partitions(rig), [...range(20300101, 20300108).map(String), "default"]);
  const inDefault = async () => plane.db.many(sql(row({ robot_id: text }))`select robot_id from log_batch_default`);
  assert.deepEqual(await inDefault(), []);
  await ingestLogs(plane, session, flush(records(4, 5)));
  assert.deepEqual(await inDefault(), []);
  assert.deepEqual(seqs((await listLogs(rig, token, `/api/robots/${robot_id}/logs`)).items), range(1, 5));
  for (const node of nodes) await node.stop();

  await rig.clock.advance({ days: 14 });
  const again = await startLogRetention(plane);
  assert.deepEqual((await partitions(rig))[0], "20300101");
  await rig.clock.advance({ days: 1 });
  await again.stop();
  const last = await startLogRetention(plane);
  await last.stop();
  assert.deepEqual((await partitions(rig))[0], "20300102");
  assert.deepEqual((await listLogs(rig, token, `/api/robots/${robot_id}/logs`)).items, []);
  // The position outlives the deleted records, so repeated records are still ignored.
  await ingestLogs(plane, session, flush(records(1, 5)));
  assert.deepEqual((await listLogs(rig, token, `/api/robots/${robot_id}/logs`)).items, []);
});

test("deletes the oldest log records of an org above its limit, but none of other orgs", TIMEOUT, async () => {
  const { rig, plane, token, org_id, robot_id, link } = await startRig();
  await using _ = rig;
  plane.settings = { ...plane.settings, limits: { ...plane.settings.limits, log_bytes_per_org_max: 10_000, log_robot_share_percent: 100 } };
  const other = await rig.org({ role: "viewer" });
  const other_robot = await seedRobot(plane, other.org_id);
  const other_session = { ...fakeSession("sess_other", other.org_id, helloOf(other_robot.robot_id, { outbox_id: "o" })), send: () => true };
  await ingestLogs(plane, other_session, flush(records(1, 3)));
  const { session } = link();
  const retention = await startLogRetention(plane);
  const message = (): string => randomBytes(1_000).toString("hex");
  for (let seq = 1; seq <= 12; seq += 1) {
    await ingestLogs(plane, session, flush([record(seq, { message: message() })]));
    await rig.clock.advance({ minutes: 10 });
  }
  const listKept = async () => seqs((await listLogs(rig, token, `/api/robots/${robot_id}/logs`)).items);
  // Each record takes about 1,350 bytes with its row: seven fit into the limit, and slightly more than necessary is deleted.
  let kept: number[] = [];
  const fits = async (): Promise<boolean> => (kept = await listKept()).length <= 7;
  await until("the oldest to be deleted", fits, { meanwhile: () => rig.clock.advance({ seconds: 10 }), detail: () => String(kept) });
  assert.ok(kept.length >= 5, String(kept));
  assert.deepEqual(kept, range(13 - kept.length, 12));
  assert.deepEqual(seqs((await listLogs(rig, other.token, `/api/robots/${other_robot.robot_id}/logs`)).items), [1, 2, 3]);
  const usage = await plane.db.one(sql(row({ bytes: bigint }))`select sum(bytes)::bigint as bytes from log_usage where org_id = ${org_id}`);
  const stored = await plane.db.one(
    sql(row({ bytes: bigint }))`select sum(octet_length(records) + 200)::bigint as bytes from log_batch where org_id = ${org_id}`,
  );
  assert.equal(usage.bytes, stored.bytes);
  assert.match(await plane.metrics.registry.metrics(), /roamfleet_log_bytes_dropped_total [1-9]/);
  await retention.stop();
});
