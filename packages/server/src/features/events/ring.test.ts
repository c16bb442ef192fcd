import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnnouncedChange } from "./announce.ts";
import { Ring } from "./ring.ts";

const change = (id: number): AnnouncedChange => ({ kind: "release", id: `rel_${id}`, change: "updated" });
const filled = (count: number, size: number): Ring => {
  const ring = new Ring("boot", size);
  for (let id = 1; id <= count; id += 1) ring.append({ change: change(id) });
  return ring;
};
const idsFrom = (ring: Ring, seq: number): string[] => ring.from(seq).map((one) => one.change.id);

test("the ring buffer keeps the last changes in order, and reports which numbers it contains", () => {
  const ring = filled(25, 10);
  assert.equal(ring.position, 25);
  assert.deepEqual(
    idsFrom(ring, 16),
    Array.from({ length: 10 }, (_, i) => `rel_${16 + i}`),
  );
  assert.deepEqual(
    [15, 16, 25, 26, 27].map((seq) => ring.has(seq)),
    [false, true, true, true, false],
  );
  assert.equal(ring.at(15), undefined);
  assert.equal(ring.at(26), undefined);
  assert.deepEqual(idsFrom(ring, 26), []);
});

test("the ring buffer accepts only event ids that it created", () => {
  const ring = filled(3, 10);
  assert.equal(ring.numberOf(ring.idOf(2)), 2);
  assert.equal(ring.numberOf(new Ring("boot-2", 10).idOf(0)), undefined);
  for (const id of ["", "-", "boot", "boot-", "boot-x", "boot-4", "boot-1e1", "boot--1", "x-1", "boot-99999999999999999999"])
    assert.equal(ring.numberOf(id), undefined, id);
});

test("a subscriber cannot resume at a position before lost changes, and receives all later changes", () => {
  const ring = filled(3, 10);
  ring.lose();
  assert.equal(ring.has(3), false);
  assert.equal(ring.has(ring.position), false);
  ring.append({ change: change(9) });
  assert.deepEqual(idsFrom(ring, 1), ["rel_9"]);
  assert.equal(ring.has(ring.position), true);
});

test("formats a change event as one line without its sites and fleets, once for all subscribers", () => {
  const ring = new Ring("boot", 10);
  const hostile: AnnouncedChange = { kind: "config_schema", id: "a\n\ndata: {}\r\u2028", change: "updated", places: [] };
  ring.append({ change: hostile });
  const frame = ring.frameOf(1, hostile);
  assert.equal(ring.frameOf(1, hostile), frame);
  const [id, event, data, ...rest] = frame.split("\n");
  assert.deepEqual([id, event, rest], ["id: boot-1", "event: change", ["", ""]]);
  assert.deepEqual(JSON.parse(data?.slice("data: ".length) ?? ""), { kind: "config_schema", id: hostile.id, change: "updated" });
});
