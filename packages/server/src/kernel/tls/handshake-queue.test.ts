import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import {
  CONNECTING_START_INTERVAL_MS,
  START_INTERVAL_MS,
  STARTS_PER_TURN_MAX,
  TlsHandshakeQueue,
  WAIT_MS_MAX,
  QUEUE_MAX,
  RUNNING_MAX,
} from "./handshake-queue.ts";

/** Creates a queue with a simulated event loop. Records the outcome of each client by number. */
function rig({ gone = new Set() }: { gone?: ReadonlySet<number> } = {}) {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const awaited: (() => void)[] = [];
  const queue = new TlsHandshakeQueue({ clock, nextTurn: (work) => awaited.push(work) });
  const begun: number[] = [];
  const sent_away: number[] = [];
  const leaves: (() => void)[] = [];
  const come = (count: number, address = "192.0.2.1", is_robot = false): void => {
    for (let i = 0; i < count; i += 1) {
      const number = leaves.length;
      const start = (): boolean => !gone.has(number) && begun.push(number) > 0;
      leaves.push(queue.join({ address, is_robot, start, sendAway: () => void sent_away.push(number) }));
    }
  };
  const turn = (): void => {
    for (const work of awaited.splice(0)) work();
  };
  /** Runs turns of the event loop until the queue has no more work. */
  const settle = (): void => {
    while (awaited.length > 0) turn();
  };
  return { clock, queue, begun, sent_away, come, leave: (number: number) => leaves[number]!(), turn, settle };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

test("limits concurrent TLS handshakes, and starts waiting ones in order of arrival", () => {
  const { queue, begun, come, settle } = rig();
  come(RUNNING_MAX + 3);
  settle();
  assert.deepEqual([begun.length, queue.running, queue.queued], [RUNNING_MAX, RUNNING_MAX, 3]);
  queue.ended();
  queue.ended();
  settle();
  assert.deepEqual(begun, upTo(RUNNING_MAX + 2));
  assert.deepEqual([queue.running, queue.queued], [RUNNING_MAX, 1]);
  come(1);
  queue.ended();
  queue.ended();
  settle();
  assert.deepEqual(begun, upTo(RUNNING_MAX + 4));
});

test("starts a few handshakes per turn of the event loop, and fewer while new connections arrive", async () => {
  const { clock, queue, begun, come, turn } = rig();
  const connectedTurn = (): void => {
    queue.connected();
    turn();
  };
  come(STARTS_PER_TURN_MAX + 3);
  connectedTurn();
  connectedTurn();
  assert.deepEqual(begun, [0]);
  await clock.advance({ milliseconds: CONNECTING_START_INTERVAL_MS });
  connectedTurn();
  connectedTurn();
  assert.deepEqual(begun, [0, 1]);
  turn();
  assert.equal(begun.length, 2 + STARTS_PER_TURN_MAX);
  turn();
  assert.equal(begun.length, 3 + STARTS_PER_TURN_MAX);
});

test("starts no handshake above the concurrency limit while clients connect", async () => {
  const { clock, queue, begun, come, turn, settle } = rig();
  come(RUNNING_MAX + 2);
  settle();
  await clock.advance({ milliseconds: CONNECTING_START_INTERVAL_MS });
  queue.connected();
  turn();
  assert.equal(begun.length, RUNNING_MAX);
  queue.ended();
  queue.connected();
  turn();
  assert.equal(begun.length, RUNNING_MAX + 1);
});

test("starts handshakes at a minimum rate even if running ones never end", async () => {
  const { clock, queue, begun, come, turn, settle } = rig();
  come(RUNNING_MAX + 200);
  settle();
  await clock.advance({ seconds: 1 });
  const expected = RUNNING_MAX + 1_000 / START_INTERVAL_MS;
  assert.deepEqual([begun.length, queue.running], [expected, expected]);
  // While more handshakes run than the limit allows, new ones start only at the minimum rate, even if one has just ended.
  queue.ended();
  settle();
  assert.equal(begun.length, expected);
  while (queue.running > 0) queue.ended();
  queue.connected();
  turn();
  await clock.advance({ milliseconds: START_INTERVAL_MS });
  assert.equal(begun.length, expected + 1);
});

test("clients that disconnect while they wait for a handshake use no slot", () => {
  const { queue, begun, come, leave, settle } = rig({ gone: new Set([RUNNING_MAX + 1]) });
  come(RUNNING_MAX + 4);
  settle();
  leave(RUNNING_MAX);
  leave(0);
  assert.equal(queue.queued, 3);
  queue.ended();
  settle();
  assert.deepEqual(begun.slice(RUNNING_MAX), [RUNNING_MAX + 2]);
  assert.deepEqual([queue.running, queue.queued], [RUNNING_MAX, 1]);
});

test("turns away clients above their network's share of the queue, and clients that wait too long", async () => {
  const { clock, queue, begun, sent_away, come } = rig();
  come(QUEUE_MAX / 2 + 1);
  assert.deepEqual(sent_away, [QUEUE_MAX / 2]);
  come(2, "192.0.2.2");
  assert.deepEqual([sent_away.length, queue.queued], [1, QUEUE_MAX / 2 + 2]);
  await clock.advance({ milliseconds: WAIT_MS_MAX - START_INTERVAL_MS });
  assert.equal(sent_away.length, 1);
  await clock.advance({ milliseconds: 2 * START_INTERVAL_MS });
  assert.equal(queue.queued, 0);
  assert.equal(begun.length + sent_away.length, QUEUE_MAX / 2 + 3);
  sent_away.length = 0;
  come(QUEUE_MAX / 2);
  assert.deepEqual(sent_away, []);
});

test("a network with thousands of queued clients does not delay clients of other networks", async () => {
  const { clock, queue, begun, come, settle } = rig();
  const strangers = 10_000;
  come(strangers, "192.0.2.1");
  settle();
  assert.equal(queue.running, RUNNING_MAX);
  come(3, "2001:db8::1");
  await clock.advance({ milliseconds: 6 * START_INTERVAL_MS });
  assert.deepEqual(
    begun.filter((number) => number >= strangers),
    [strangers, strangers + 1, strangers + 2],
  );
});

test("serves robots and other clients alternately, also of the same network", () => {
  const { queue, begun, come, settle } = rig();
  const address = "192.0.2.1";
  come(RUNNING_MAX + 1_000, address, true);
  settle();
  come(3, address);
  for (let i = 0; i < 8; i += 1) {
    queue.ended();
    settle();
  }
  const [robot, person] = [RUNNING_MAX, RUNNING_MAX + 1_000];
  // When no other client is queued, each start is a robot's.
  assert.deepEqual(begun.slice(RUNNING_MAX), [person, robot, person + 1, robot + 1, person + 2, robot + 2, robot + 3, robot + 4]);
});

test("closing the handshake queue turns away all waiting and later clients", async () => {
  const { clock, queue, begun, sent_away, come, settle } = rig();
  come(RUNNING_MAX + 2);
  settle();
  queue.close();
  come(1);
  queue.ended();
  settle();
  await clock.advance({ minutes: 1 });
  assert.equal(begun.length, RUNNING_MAX);
  assert.deepEqual(sent_away, [RUNNING_MAX, RUNNING_MAX + 1, RUNNING_MAX + 2]);
});
