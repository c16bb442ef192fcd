import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { int, jsonb, nullable, row, sql, text } from "../../kernel/sql.ts";
import { startRig, type TestViewer } from "./testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };

const entryRow = row({ action: text, status: nullable(int), request_id: text, data: jsonb<Record<string, unknown>>() });
type Rig = Awaited<ReturnType<typeof startRig>>;
const toldOf = ({ plane, org_id }: Rig) =>
  plane.db.many(sql(entryRow)`
    select ${entryRow} from audit_entry where org_id = ${org_id} and action like 'stream.%' order by id`);
const closedOf = async (it: Rig) => (await toldOf(it)).filter(({ action }) => action === "stream.closed");
/** Waits for this many audit entries of closed streams. Entries that are written concurrently may have any order. */
const untilClosed = (it: Rig, count: number) => until("the ends to be written", async () => (await closedOf(it)).length === count);
const openRows = async ({ plane }: Rig): Promise<number> =>
  (await plane.db.one(sql(row({ count: int }))`select count(*)::int as count from open_stream`)).count;

test("audits the opening of each stream before it opens, and its end with reason and duration", TIMEOUT, async () => {
  await using it = await startRig();
  const left = it.view();
  const request_id = String((await left.headers)["x-request-id"]);
  assert.deepEqual(await toldOf(it), [{ action: "stream.opened", status: null, request_id, data: { stream: "logs" } }]);
  await it.rig.clock.advance({ seconds: 90 });
  left.ws.close(4401, "any text of a viewer");
  await untilClosed(it, 1);
  const cut = it.view();
  await cut.headers;
  cut.ws.terminate();
  await untilClosed(it, 2);
  const long = it.view();
  await long.headers;
  long.ws.send(Buffer.alloc(65 * 1024));
  await untilClosed(it, 3);
  const lost = it.view();
  await lost.headers;
  it.sessions.delete(it.robot_id);
  await it.rig.clock.advance({ seconds: 1 });
  await lost.closed;
  await it.streams.drain();
  const closed = await closedOf(it);
  assert.deepEqual(
    closed.map(({ status, data }) => [status, data.reason, data.stream]),
    [
      [4401, "viewer_left", "logs"],
      [1006, "connection_lost", "logs"],
      [1006, "protocol_error", "logs"],
      [4409, "agent_offline", "logs"],
    ],
  );
  assert.deepEqual([closed[0]?.request_id, closed[0]?.data.duration_seconds, await openRows(it)], [request_id, 90, 0]);
});

test("opens no stream without its audit entry, and retries the closing entry after an outage", TIMEOUT, async () => {
  await using it = await startRig();
  const { db } = it.plane;
  const viewer = it.view();
  await viewer.headers;
  await db.run(sql`alter table audit_entry add constraint refuse_all check (status is not null and status = -1) not valid`);
  assert.equal((await it.refused(`${it.path}?token=${it.token}`)).status, 500);
  viewer.ws.close();
  await viewer.closed;
  await it.streams.drain();
  await it.streams.sweep();
  assert.equal(await openRows(it), 1);
  await db.run(sql`alter table audit_entry drop constraint refuse_all`);
  await it.rig.clock.advance({ seconds: 60 });
  for (let i = 0; i < 2; i += 1) await it.streams.sweep();
  const ends = (await toldOf(it)).map(({ action, data }) => [action, data.reason, data.duration_seconds]);
  assert.deepEqual(ends, [
    ["stream.opened", undefined, undefined],
    ["stream.closed", "viewer_left", 0],
  ]);
});

test("an audit entry that cannot be written does not delay other entries or the deletion of tickets", TIMEOUT, async () => {
  await using it = await startRig();
  const { db } = it.plane;
  const lost = [it.view(), it.view(), it.view()];
  const ids = (await Promise.all(lost.map(async ({ headers }) => String((await headers)["x-request-id"])))).toSorted();
  const [first = "", ...others] = ids;
  const body = { robot_id: it.robot_id, stream: "logs" };
  assert.equal((await it.rig.call("POST", "/api/stream-tickets", { token: it.token, body })).status, 201);
  await db.run(sql`update stream_ticket set expires_at = expires_at - interval '1 hour'`);
  await db.run(sql`update open_stream set node_id = 'node_gone'`);
  await db.run(sql`update open_stream set entry = entry || '{"path": "refused"}' where id = ${first}`);
  await db.run(sql`alter table audit_entry add constraint refuse_one check (path <> 'refused') not valid`);
  const state = async () => ({
    closed: (await closedOf(it)).map(({ request_id }) => request_id),
    open: await openRows(it),
    tickets: await db.run(sql`select from stream_ticket`),
  });
  for (let i = 0; i < 2; i += 1) await it.streams.sweep();
  assert.deepEqual(await state(), { closed: others, open: 1, tickets: 0 });
  await db.run(sql`alter table audit_entry drop constraint refuse_one`);
  for (let i = 0; i < 2; i += 1) await it.streams.sweep();
  assert.deepEqual(await state(), { closed: [...others, first], open: 0, tickets: 0 });
});

test("audits the streams of a dead server once as lost, but not those of live servers", TIMEOUT, async () => {
  await using it = await startRig();
  const { db, clock } = it.plane;
  const at = clock.now();
  await db.run(
    sql`insert into node (id, epoch, beat, is_over, started_at) values ('node_a', 1, 1, false, ${at}), ('node_b', 7, 1, false, ${at})`,
  );
  const [mine, of_dead_node, before] = [it.view(), it.view(), it.view()];
  await Promise.all([mine.headers, of_dead_node.headers, before.headers]);
  const move = async (viewer: TestViewer, node_id: string, epoch: number) =>
    db.run(
      sql`update open_stream set node_id = ${node_id}, node_epoch = ${epoch} where id = ${String((await viewer.headers)["x-request-id"])}`,
    );
  await move(of_dead_node, "node_b", 7);
  await move(before, "node_a", 0);
  await it.streams.sweep();
  const lostOnes = async () => (await toldOf(it)).filter(({ data }) => data.reason === "server_lost").map(({ request_id }) => request_id);
  assert.deepEqual(await lostOnes(), [(await before.headers)["x-request-id"]]);
  await db.run(sql`update node set is_over = true where id = 'node_b'`);
  for (let i = 0; i < 2; i += 1) await it.streams.sweep();
  assert.deepEqual(
    new Set(await lostOnes()),
    new Set([(await before.headers)["x-request-id"], (await of_dead_node.headers)["x-request-id"]]),
  );
  const first = (await toldOf(it)).find(({ action }) => action === "stream.closed");
  assert.deepEqual([first?.status, first?.data], [null, { stream: "logs", reason: "server_lost", duration_seconds: null }]);
  // A server that was declared dead but still runs writes no second entry.
  of_dead_node.ws.close();
  await of_dead_node.closed;
  mine.ws.close();
  await mine.closed;
  await it.streams.drain();
  assert.equal((await toldOf(it)).length, 6);
});
