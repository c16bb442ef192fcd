import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import {
  type Arrival,
  BEGUN_BESIDE_EVERY_MS,
  BEGUN_EVERY_MS,
  BEGUN_PER_TURN_MAX,
  HandshakeLine,
  PATIENCE_MS,
  PLACES_MAX,
  UNDER_WAY_MAX,
} from "./handshake-line.ts";

/** A queue with a simulated event loop. Records what happened to each client, by number. */
function rig({ gone = new Set() }: { gone?: ReadonlySet<number> } = {}) {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const awaited: (() => void)[] = [];
  const line = new HandshakeLine({ clock, nextTurn: (work) => awaited.push(work) });
  const begun: number[] = [];
  const sent_away: number[] = [];
  const arrivals: Arrival[] = [];
  const come = (count: number, address = "192.0.2.1"): void => {
    for (let i = 0; i < count; i += 1) {
      const number = arrivals.length;
      const begin = (): boolean => !gone.has(number) && begun.push(number) > 0;
      const arrival = { address, begin, sendAway: () => void sent_away.push(number) };
      arrivals.push(arrival);
      line.join(arrival);
    }
  };
  const turn = (): void => {
    for (const work of awaited.splice(0)) work();
  };
  /** Runs turns of the loop until nothing more happens. */
  const settle = (): void => {
    while (awaited.length > 0) turn();
  };
  return { clock, line, begun, sent_away, come, leave: (number: number) => line.leave(arrivals[number]!), turn, settle };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

test("limits running handshakes; each one that ends starts the next in order of arrival", () => {
  const { line, begun, come, settle } = rig();
  come(UNDER_WAY_MAX + 3);
  settle();
  assert.deepEqual([begun.length, line.under_way, line.in_line], [UNDER_WAY_MAX, UNDER_WAY_MAX, 3]);
  line.ended();
  line.ended();
  settle();
  assert.deepEqual(begun, upTo(UNDER_WAY_MAX + 2));
  assert.deepEqual([line.under_way, line.in_line], [UNDER_WAY_MAX, 1]);
  come(1);
  line.ended();
  line.ended();
  settle();
  assert.deepEqual(begun, upTo(UNDER_WAY_MAX + 4));
});

test("starts a few per turn of the loop; while clients connect, at most one per turn and a limited number per second", async () => {
  const { clock, line, begun, come, turn } = rig();
  const connectedTurn = (): void => {
    line.connected();
    turn();
  };
  come(BEGUN_PER_TURN_MAX + 3);
  connectedTurn();
  connectedTurn();
  assert.deepEqual(begun, [0]);
  await clock.advance({ milliseconds: BEGUN_BESIDE_EVERY_MS });
  connectedTurn();
  connectedTurn();
  assert.deepEqual(begun, [0, 1]);
  turn();
  assert.equal(begun.length, 2 + BEGUN_PER_TURN_MAX);
  turn();
  assert.equal(begun.length, 3 + BEGUN_PER_TURN_MAX);
});

test("while clients connect, starts none beyond the limit of running handshakes", async () => {
  const { clock, line, begun, come, turn, settle } = rig();
  come(UNDER_WAY_MAX + 2);
  settle();
  await clock.advance({ milliseconds: BEGUN_BESIDE_EVERY_MS });
  line.connected();
  turn();
  assert.equal(begun.length, UNDER_WAY_MAX);
  line.ended();
  line.connected();
  turn();
  assert.equal(begun.length, UNDER_WAY_MAX + 1);
});

test("starts handshakes at the minimum rate even if none ends and clients connect all the time", async () => {
  const { clock, line, begun, come, turn, settle } = rig();
  come(UNDER_WAY_MAX + 200);
  settle();
  await clock.advance({ seconds: 1 });
  const expected = UNDER_WAY_MAX + 1_000 / BEGUN_EVERY_MS;
  assert.deepEqual([begun.length, line.under_way], [expected, expected]);
  // The excess ones must end before more than the minimum rate start.
  line.ended();
  settle();
  assert.equal(begun.length, expected);
  while (line.under_way > 0) line.ended();
  line.connected();
  turn();
  await clock.advance({ milliseconds: BEGUN_EVERY_MS });
  assert.equal(begun.length, expected + 1);
});

test("clients that leave, and those that are gone at their turn, take no slot", () => {
  const { line, begun, come, leave, settle } = rig({ gone: new Set([UNDER_WAY_MAX + 1]) });
  come(UNDER_WAY_MAX + 4);
  settle();
  leave(UNDER_WAY_MAX);
  leave(0);
  assert.equal(line.in_line, 3);
  line.ended();
  settle();
  assert.deepEqual(begun.slice(UNDER_WAY_MAX), [UNDER_WAY_MAX + 2]);
  assert.deepEqual([line.under_way, line.in_line], [UNDER_WAY_MAX, 1]);
});

test("a network may queue as many clients as slots are free; excess clients and those that waited too long are turned away", async () => {
  const { clock, line, begun, sent_away, come } = rig();
  come(PLACES_MAX / 2 + 1);
  assert.deepEqual(sent_away, [PLACES_MAX / 2]);
  come(2, "192.0.2.2");
  assert.deepEqual([sent_away.length, line.in_line], [1, PLACES_MAX / 2 + 2]);
  await clock.advance({ milliseconds: PATIENCE_MS - BEGUN_EVERY_MS });
  assert.equal(sent_away.length, 1);
  await clock.advance({ milliseconds: 2 * BEGUN_EVERY_MS });
  assert.equal(line.in_line, 0);
  assert.equal(begun.length + sent_away.length, PLACES_MAX / 2 + 3);
  sent_away.length = 0;
  come(PLACES_MAX / 2);
  assert.deepEqual(sent_away, []);
});

test("networks alternate: a network with thousands of queued clients does not delay the others", async () => {
  const { clock, line, begun, come, settle } = rig();
  const strangers = 10_000;
  come(strangers, "192.0.2.1");
  settle();
  assert.equal(line.under_way, UNDER_WAY_MAX);
  come(3, "2001:db8::1");
  await clock.advance({ milliseconds: 6 * BEGUN_EVERY_MS });
  assert.deepEqual(
    begun.filter((number) => number >= strangers),
    [strangers, strangers + 1, strangers + 2],
  );
});

test("closing the queue turns away all waiting clients and all later ones", async () => {
  const { clock, line, begun, sent_away, come, settle } = rig();
  come(UNDER_WAY_MAX + 2);
  settle();
  line.close();
  come(1);
  line.ended();
  settle();
  await clock.advance({ minutes: 1 });
  assert.equal(begun.length, UNDER_WAY_MAX);
  assert.deepEqual(sent_away, [UNDER_WAY_MAX, UNDER_WAY_MAX + 1, UNDER_WAY_MAX + 2]);
});
