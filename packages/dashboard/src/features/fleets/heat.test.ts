import assert from "node:assert/strict";
import { test } from "node:test";
import { countHeats, heatOf, moveFocus, summarize } from "./heat.ts";

const well = { status: "online", health: "ok", release_state: "current" } as const;

test("the fleet grid shows a robot in its worst state", () => {
  assert.equal(heatOf(well), "ok");
  assert.equal(heatOf({ ...well, release_state: "unknown" }), "ok");
  assert.equal(heatOf({ ...well, health: "failing", release_state: "failed" }), "failing");
  assert.equal(heatOf({ ...well, release_state: "failed" }), "failed");
  assert.equal(heatOf({ ...well, release_state: "behind" }), "behind");
  assert.equal(heatOf({ ...well, health: "unknown" }), "unknown");
});

test("the fleet grid ignores the last health of robots that are not online", () => {
  assert.equal(heatOf({ ...well, status: "offline", health: "failing" }), "offline");
  assert.equal(heatOf({ ...well, status: "never_connected", health: "unknown" }), "never_connected");
});

test("the fleet grid counts robots by state, worst state first", () => {
  const robots = [well, well, { ...well, health: "failing" as const }, { ...well, status: "offline" as const }];
  assert.deepEqual(
    countHeats(robots).map(({ heat, count }) => [heat, count]),
    [
      ["failing", 1],
      ["offline", 1],
      ["ok", 2],
    ],
  );
  assert.equal(summarize(robots), "4 robots: 1 unhealthy, 1 offline, 2 healthy.");
  assert.equal(summarize([]), "0 robots.");
  assert.equal(summarize([well]), "1 robot: 1 healthy.");
});

test("arrow keys, Home and End move the focus within the fleet grid", () => {
  assert.equal(moveFocus("ArrowRight", 0, 10, 4), 1);
  assert.equal(moveFocus("ArrowRight", 9, 10, 4), 9);
  assert.equal(moveFocus("ArrowLeft", 0, 10, 4), 0);
  assert.equal(moveFocus("ArrowDown", 1, 10, 4), 5);
  assert.equal(moveFocus("ArrowDown", 7, 10, 4), 7);
  assert.equal(moveFocus("ArrowUp", 5, 10, 4), 1);
  assert.equal(moveFocus("ArrowUp", 3, 10, 4), 3);
  assert.equal(moveFocus("End", 3, 10, 4), 9);
  assert.equal(moveFocus("Home", 3, 10, 4), 0);
  assert.equal(moveFocus("a", 3, 10, 4), undefined);
});
