import assert from "node:assert/strict";
import { test } from "node:test";
import { type Clock, SimulatedClock, trackActivity } from "@roamfleet/clock";
import { localBus } from "../engines/bus/index.ts";
import { createTestDatabase, silentLog } from "../engines/db/testing/index.ts";
import type { SystemDb } from "../kernel/db.ts";
import { createLog } from "../kernel/log.ts";
import { row, sql, text } from "../kernel/sql.ts";
import { deleteLongOver, Lease, LEASE_MS, listHeartbeats } from "./lease.ts";

const TIMEOUT = { timeout: 60_000 };
const MINUTES_MS = 60_000;

/** Starts nodes on one database and one bus, with a shared monotonic time and separate wall clocks. */
async function startNodes() {
  const database = await createTestDatabase();
  const activity = trackActivity();
  const time = new SimulatedClock({ at: "2030-01-01T00:00:00Z", activity });
  const db = await database.connect({ activity });
  const bus = localBus({ log: silentLog, activity });
  const own = new AsyncDisposableStack();
  const nodes = new Map<string, Node>();
  const start = async (id: string, { skew_ms = 0, off_bus = false } = {}): Promise<Node> => {
    const clock = skewed(time, skew_ms);
    const state: Node["state"] = { lost: false };
    const guarded = {
      ...db,
      many: async (...args: Parameters<SystemDb["many"]>) => {
        const { line } = state;
        delete state.line;
        await line;
        return state.lost ? Promise.reject(new Error("no database")) : db.many(...args);
      },
      run: db.run.bind(db),
      one: db.one.bind(db),
    } as unknown as SystemDb;
    const lease = await Lease.take({ db: guarded, clock, log: createLog({ level: "silent" }) }, id);
    const calls: Node["calls"] = { changed: 0, cut_off: 0, superseded: [] };
    const kept = lease.keep({
      bus: off_bus ? { publish: () => {}, subscribe: () => () => {}, connected: false } : bus,
      changed: () => void (calls.changed += 1),
      cutOff: () => void (calls.cut_off += 1),
      superseded: (why) => void calls.superseded.push(why),
    });
    own.defer(() => kept.stop());
    const node = { lease, calls, state, stop: () => kept.stop() };
    nodes.set(id, node);
    return node;
  };
  const living = async () => (await listHeartbeats(db)).map(({ id }) => id);
  return {
    time,
    db,
    start,
    living,
    async [Symbol.asyncDispose]() {
      await own.disposeAsync();
      await bus.close();
      await db.close();
      await database.drop();
    },
  };
}

interface Node {
  lease: Lease;
  calls: { changed: number; cut_off: number; superseded: string[] };
  /** State of the connection to the database. The next statement waits for `line`; later ones do not. */
  state: { lost: boolean; line?: Promise<void> };
  stop(): Promise<void>;
}

const skewed = (time: SimulatedClock, skew_ms: number): Clock => ({
  now: () => new Date(time.now().getTime() + skew_ms),
  monotonic: () => time.monotonic() + Math.abs(skew_ms) * 7,
  setTimer: (ms, work) => time.setTimer(ms, work),
  every: (ms, work) => time.every(ms, work),
  sleep: (ms, signal) => time.sleep(ms, signal),
  random: () => time.random(),
  randomBytes: (count) => time.randomBytes(count),
});

test("reports only dead nodes as dead, even if wall clocks differ by ten minutes", TIMEOUT, async () => {
  await using it = await startNodes();
  const ahead = await it.start("node_ahead", { skew_ms: 5 * MINUTES_MS });
  const behind = await it.start("node_behind", { skew_ms: -5 * MINUTES_MS });
  const third = await it.start("node_third");
  await it.time.advance({ minutes: 2 });
  assert.deepEqual(await it.living(), ["node_ahead", "node_behind", "node_third"]);
  assert.deepEqual(
    [ahead.calls, behind.calls, third.calls].map(({ changed }) => changed),
    [0, 0, 0],
  );
  await third.stop();
  await it.time.advance({ milliseconds: LEASE_MS - 3_000 });
  assert.ok((await it.living()).includes("node_third"));
  await it.time.advance({ milliseconds: 15_000 - (LEASE_MS - 3_000) });
  assert.deepEqual(await it.living(), ["node_ahead", "node_behind"]);
  // One node detects the death first, and only that node reports it. Both nodes also check presence every few seconds.
  assert.equal(ahead.calls.changed + behind.calls.changed, 1);
  assert.equal(third.lease.is_held, false);
});

test("a node that was shut down counts as dead immediately, and its next run has a new epoch", TIMEOUT, async () => {
  await using it = await startNodes();
  const first = await it.start("node_a");
  await first.stop();
  await first.lease.giveUp();
  assert.deepEqual(await it.living(), []);
  const second = await it.start("node_a");
  assert.equal(second.lease.node.epoch, first.lease.node.epoch + 1);
  await first.lease.giveUp();
  const living = (await listHeartbeats(it.db)).map(({ id, epoch }) => ({ id, epoch }));
  assert.deepEqual(living, [second.lease.node]);
});

test("deletes a node only after it has been dead for a day, and never reuses its epoch", TIMEOUT, async () => {
  await using it = await startNodes();
  const frozen = await it.start("node_frozen");
  const living = await it.start("node_living");
  await frozen.stop();
  await (await it.start("node_stopped")).stop();
  await it.time.advance({ seconds: 20 });
  assert.deepEqual(await it.living(), ["node_living"]);
  const rows = async () => (await it.db.many(sql(row({ id: text }))`select id from node order by id`)).map(({ id }) => id);
  const age = (id: string, hours: number) =>
    it.db.run(sql`update node set renewed_at = now() - make_interval(hours => ${hours}::int) where id = ${id}`);
  await age("node_frozen", 25);
  await age("node_stopped", 23);
  await age("node_living", 25);
  assert.equal(await deleteLongOver(it.db), 1);
  assert.deepEqual(await rows(), ["node_living", "node_stopped"]);
  await it.time.advance({ seconds: 4 });
  await it.db.run(sql`update node set is_over = true where id = 'node_living'`);
  assert.equal(await deleteLongOver(it.db), 0, "its renewals say when");
  assert.deepEqual(living.calls.superseded, []);
  const next = await it.start("node_frozen");
  assert.ok(next.lease.node.epoch > frozen.lease.node.epoch);
});

test("a lease renewal without a response does not block further renewals", TIMEOUT, async () => {
  await using it = await startNodes();
  const node = await it.start("node_a");
  const other = await it.start("node_b");
  await it.time.advance({ seconds: 10 });
  const { promise, resolve } = Promise.withResolvers<void>();
  node.state.line = promise;
  const not_held_at: number[] = [];
  for (let second = 1; second <= 30; second += 1) {
    await it.time.advance({ seconds: 1 });
    if (!node.lease.is_held) not_held_at.push(second);
  }
  const living = await it.living();
  // The late response has no effect.
  resolve();
  assert.deepEqual(not_held_at, []);
  assert.deepEqual(living, ["node_a", "node_b"]);
  await it.time.advance({ seconds: 1 });
  assert.ok(node.lease.is_held);
  assert.deepEqual([node.calls, other.calls.changed], [{ changed: 0, cut_off: 0, superseded: [] }, 0]);
});

test("a node that cannot renew its lease detects this before the other nodes do", TIMEOUT, async () => {
  await using it = await startNodes();
  const cut = await it.start("node_cut");
  const other = await it.start("node_other");
  await it.time.advance({ seconds: 4 });
  cut.state.lost = true;
  for (let waited = 0; cut.lease.is_held; waited += 1) {
    assert.ok(waited < 20, "it went on holding its lease");
    assert.ok((await it.living()).includes("node_cut"), "the others were first");
    await it.time.advance({ seconds: 1 });
  }
  await it.time.advance({ seconds: 15 - 9 });
  assert.deepEqual(await it.living(), ["node_other"]);
  assert.ok(cut.calls.cut_off > 0);
  assert.deepEqual([other.calls.cut_off, other.lease.is_held], [0, true]);
  cut.state.lost = false;
  const { changed } = cut.calls;
  await it.time.advance({ seconds: 4 });
  assert.ok(cut.calls.changed > changed, "the isolated node checks its lease again");
  assert.equal(cut.lease.is_held, true);
  assert.deepEqual(await it.living(), ["node_cut", "node_other"]);
});

test("a node disconnects its robots if it reaches neither database nor bus", TIMEOUT, async () => {
  await using it = await startNodes();
  const deaf = await it.start("node_deaf", { off_bus: true });
  const single = await it.start("node_single");
  deaf.state.lost = true;
  single.state.lost = true;
  await it.time.advance({ seconds: 30 });
  assert.equal(deaf.lease.is_held, false);
  assert.ok(deaf.calls.cut_off > 0);
  assert.equal(single.lease.is_held, false);
  assert.equal(single.calls.cut_off, 0);
});

test("no node is declared dead when all nodes lose the database", TIMEOUT, async () => {
  await using it = await startNodes();
  const nodes = [await it.start("node_a"), await it.start("node_b")];
  await it.time.advance({ seconds: 10 });
  for (const { state } of nodes) state.lost = true;
  await it.time.advance({ minutes: 5 });
  // One node reconnects earlier than the other.
  nodes[0]!.state.lost = false;
  await it.time.advance({ seconds: 6 });
  nodes[1]!.state.lost = false;
  await it.time.advance({ seconds: 30 });
  assert.deepEqual(await it.living(), ["node_a", "node_b"]);
  assert.deepEqual(
    nodes.map(({ calls }) => calls.cut_off),
    [0, 0],
  );
});

test("the older of two processes with the same node id is superseded once", TIMEOUT, async () => {
  await using it = await startNodes();
  const older = await it.start("node_a");
  const newer = await it.start("node_a");
  await it.time.advance({ seconds: 20 });
  const superseded = ["another process runs under this node's id"];
  assert.deepEqual([older.calls, newer.calls.superseded], [{ changed: 0, cut_off: 0, superseded }, []]);
  assert.deepEqual([older.lease.is_held, newer.lease.is_held], [false, true]);
  await it.db.run(sql`delete from node`);
  await it.time.advance({ seconds: 4 });
  await it.time.advance({ seconds: 20 });
  assert.deepEqual(newer.calls.superseded, ["the row of this node was deleted"]);
});
