import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { idSource, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { bytea, row, sql, text } from "../../kernel/sql.ts";
import { ingestLogs } from "../logs/index.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { encodeLogCursor, LogCursor } from "./log-cursor.ts";
import { flush, range, startRig } from "./testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };
const batchRow = row({ records: bytea, codec: text });

test("a viewer that reconnects with the cursor of a robot's log gets exactly the later records", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 10));
  const first = it.view(`${it.path}?token=${it.token}&cursor=`);
  await until("the first cursor", () => first.cursors.length === 1);
  assert.deepEqual(first.seqs, range(1, 10));
  await it.rig.clock.advance({ seconds: 2 });
  await ingestLogs(it.plane, it.session, flush(11, 20));
  await it.rig.clock.advance({ seconds: 2 });
  await until("the next cursor, after a change", () => first.cursors.length === 2);
  assert.deepEqual(first.seqs, range(1, 20));
  await ingestLogs(it.plane, it.session, flush(21, 30));
  await until("records after the cursor", () => first.seqs.at(-1) === 30);
  first.ws.terminate();
  for (let seq = 31; seq <= 1_030; seq += 10) await ingestLogs(it.plane, it.session, flush(seq, seq + 9));
  const again = it.view(`${it.path}?token=${it.token}&cursor=${first.cursors[1]}`);
  await until("everything after the cursor", () => again.seqs.at(-1) === 1_030);
  assert.deepEqual(again.seqs, range(21, 1_030));
  const without = it.view();
  await until("a stream without cursors", () => without.seqs.length === 100);
  await it.rig.clock.advance({ seconds: 4 });
  assert.deepEqual(without.cursors, []);
});

test("sends no log cursor before the first record of a stream that starts at a given time", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 10));
  await it.rig.clock.advance({ seconds: 10 });
  const first = it.view(`${it.path}?token=${it.token}&cursor=&after=${it.plane.clock.now().toISOString()}`);
  await first.headers;
  await it.rig.clock.advance({ seconds: 4 });
  assert.deepEqual(first.cursors, []);
  await ingestLogs(it.plane, it.session, flush(11, 20));
  await until("the later records", () => first.seqs.length === 10);
  await it.rig.clock.advance({ seconds: 2 });
  await until("a cursor", () => first.cursors.length > 0);
  const again = it.view(`${it.path}?token=${it.token}&cursor=${first.cursors[0]}`);
  await ingestLogs(it.plane, it.session, flush(21, 30));
  await until("the records after the cursor", () => again.seqs.at(-1) === 30);
  assert.deepEqual([first.seqs.slice(0, 10), again.seqs], [range(11, 20), range(21, 30)]);
});

test("the cursor of a fleet's log also covers robots without matching records", TIMEOUT, async () => {
  await using it = await startRig();
  const { fleet_id, site_id, org_id } = it;
  const sessions = await Promise.all(
    range(2, 3).map(async (i) => {
      const { robot_id } = await seedRobot(it.plane, org_id, { fleet_id, site_id });
      const session = fakeSession(`sess_${i}`, org_id, helloOf(robot_id));
      it.sessions.set(robot_id, session);
      return session;
    }),
  );
  const [quiet, silent] = [sessions[0]!, sessions[1]!];
  const view = (cursor: string) => it.view(`/api/fleets/${fleet_id}/logs/ws?token=${it.token}&level=error&cursor=${cursor}`);
  await ingestLogs(it.plane, it.session, flush(1, 10, { level: "error" }));
  await ingestLogs(it.plane, quiet, flush(1, 10));
  const first = view("");
  await until("the first cursor", () => first.cursors.length === 1);
  assert.equal(first.records.length, 10);
  first.ws.terminate();
  for (const [session, from] of [
    [it.session, 11],
    [quiet, 11],
    [silent, 1],
  ] as const)
    for (let seq = from; seq < from + 500; seq += 10) await ingestLogs(it.plane, session, flush(seq, seq + 9, { level: "error" }));
  const again = view(first.cursors[0]!);
  const seqsOf = (robot_id: string): number[] => again.records.filter((record) => record.robot_id === robot_id).map(({ seq }) => seq);
  await until("everything after the cursor", () => again.records.length >= 1_500);
  await ingestLogs(it.plane, silent, flush(501, 501, { level: "error" }));
  await until("a live record", () => seqsOf(silent.robot_id).at(-1) === 501);
  assert.deepEqual(seqsOf(it.robot_id), range(11, 510));
  assert.deepEqual(seqsOf(quiet.robot_id), range(11, 510));
  assert.deepEqual(seqsOf(silent.robot_id), range(1, 501));
});

test("the cursor of a large fleet's log never skips unread records of any robot", TIMEOUT, async () => {
  await using it = await startRig();
  const { fleet_id, site_id, org_id, plane } = it;
  const others = range(2, 260).map(async (i) =>
    fakeSession(`sess_${i}`, org_id, helloOf((await seedRobot(plane, org_id, { fleet_id, site_id })).robot_id)),
  );
  const sessions = [it.session, ...(await Promise.all(others))];
  const ingest = (seq: number) => Promise.all(sessions.map((session) => ingestLogs(plane, session, flush(seq, seq))));
  const view = (cursor: string) => it.view(`/api/fleets/${fleet_id}/logs/ws?token=${it.token}&cursor=${cursor}`);
  await ingest(1);
  const first = view("");
  await until("the first cursor", () => first.cursors.length === 1);
  first.ws.terminate();
  await it.rig.clock.advance({ seconds: 1 });
  await ingest(2);
  const batch = sql`robot_id = ${it.robot_id} and first_seq = 2`;
  const { records, codec } = await plane.db.one(sql(batchRow)`select ${batchRow} from log_batch where ${batch}`);
  await plane.db.run(sql`update log_batch set codec = 'deflate', records = ${deflateRawSync("unreadable")} where ${batch}`);
  const again = view(first.cursors[0]!);
  await until("the records of all other robots", () => again.records.length === sessions.length - 1, {
    meanwhile: () => it.rig.clock.advance({ seconds: 5 }),
  });
  await it.rig.clock.advance({ seconds: 2 });
  again.ws.terminate();
  await plane.db.run(sql`update log_batch set codec = ${codec}, records = ${records} where ${batch}`);
  const last = view(again.cursors.at(-1) ?? first.cursors[0]!);
  await until("the record that could not be read before", () =>
    last.records.some(({ robot_id, seq }) => robot_id === it.robot_id && seq === 2),
  );
  assert.equal(new Set([...again.records, ...last.records].map(({ robot_id }) => robot_id)).size, sessions.length);
});

test("refuses a log cursor that is malformed, has expired or belongs to another log", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 1));
  const viewer = it.view(`${it.path}?token=${it.token}&cursor=`);
  await until("the cursor", () => viewer.cursors.length === 1);
  const [cursor = ""] = viewer.cursors;
  const refused = async (path: string, query: string): Promise<void> =>
    assert.equal((await it.refused(`${path}?token=${it.token}&${query}`)).code, "bad_request", query);
  await refused(it.path, "cursor=x");
  await refused(it.path, `cursor=${cursor.slice(0, -4)}`);
  await refused(it.path, `cursor=${cursor}&after=2030-01-01T00:00:00Z`);
  await refused(`/api/fleets/${it.fleet_id}/logs/ws`, `cursor=${cursor}`);
  const id = it.robot_id;
  const late = { now: () => new Date(it.plane.clock.now().getTime() + 16 * 86_400_000) };
  assert.throws(() => LogCursor.decode(cursor, { id, plane: { ...it.plane, clock: { ...it.plane.clock, ...late } } }), /has expired/);
});

test("a log cursor has a position for each robot that logged recently, and one time for all others", () => {
  const id = idSource(systemClock);
  const time = (i: number): string => new Date(Date.UTC(2030, 0, 1, 0, 0, i)).toISOString();
  const positions = new Map(range(1, 1_000).map((i) => [id("rob"), i > 990 ? undefined : { received_at: time(i), seq: i }]));
  const now = new Date(Date.UTC(2030, 0, 2));
  const cursor = encodeLogCursor("fleet_1", positions, now);
  assert.ok(cursor.length < 7_000, `${cursor.length} characters`);
  const plane = { clock: { ...systemClock, now: () => now }, settings: { limits: { log_retention_days: 14 } } };
  const decoded = LogCursor.decode(cursor, { id: "fleet_1", plane: plane as never });
  const all = decoded.positionsOf(positions.keys());
  assert.deepEqual([...all.values()].slice(740, 990), [...positions.values()].slice(740, 990));
  const reversed = encodeLogCursor("fleet_1", new Map([...positions].toReversed()), now);
  assert.deepEqual(LogCursor.decode(reversed, { id: "fleet_1", plane: plane as never }).positionsOf(positions.keys()), all);
  const rest = { received_at: time(740), seq: Number.MAX_SAFE_INTEGER };
  assert.ok([...all.values()].slice(0, 740).every((end) => end?.received_at === rest.received_at && end.seq === rest.seq));
  // The cursor has room for all robots, so a robot that is missing in it was not in the stream.
  const few = LogCursor.decode(encodeLogCursor("fleet_1", new Map([["rob_known0000001", undefined]]), now), {
    id: "fleet_1",
    plane: plane as never,
  });
  assert.deepEqual([...few.positionsOf(["rob_known0000001", "rob_other0000002"])], [["rob_known0000001", undefined]]);
});
