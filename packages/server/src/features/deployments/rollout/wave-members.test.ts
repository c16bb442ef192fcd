import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { assignWaves, type Wave } from "./wave-members.ts";

const wave = (members: Partial<Wave>): Wave => ({ soak_seconds: 0, gate: "auto", ...members });
const robots = (count: number, zone: (i: number) => string = () => "a") =>
  Array.from({ length: count }, (_, i) => ({ labels: { zone: zone(i) } }));
const sizes = (of_robot: readonly number[], waves: number): number[] =>
  Array.from({ length: waves + 1 }, (_, number) => of_robot.filter((one) => one === number).length);

test("percentages are cumulative, of all robots, rounded up; remaining robots are in the last wave", () => {
  assert.deepEqual(sizes(assignWaves(robots(1_000), [wave({ percent: 1 }), wave({ percent: 10 })]), 2), [10, 90, 900]);
  assert.deepEqual(sizes(assignWaves(robots(7), [wave({ percent: 5 }), wave({ percent: 50 })]), 2), [1, 3, 3]);
  assert.deepEqual(sizes(assignWaves(robots(3), [wave({ count: 2 }), wave({ count: 50 })]), 2), [2, 1, 0]);
});

test("a wave by labels contains the matching robots, which count in later percentages", () => {
  const of_robot = assignWaves(
    robots(10, (i) => (i % 5 === 4 ? "b" : "a")),
    [wave({ labels: { zone: "b" } }), wave({ percent: 50 })],
  );
  assert.deepEqual(of_robot, [1, 1, 1, 2, 0, 2, 2, 2, 2, 0]);
});

const anyWave = fc.oneof(
  fc.integer({ min: 1, max: 100 }).map((percent) => wave({ percent })),
  fc.integer({ min: 1, max: 30 }).map((count) => wave({ count })),
  fc.constantFrom("a", "b").map((zone) => wave({ labels: { zone } })),
);

test("each robot is in one wave, and each wave has the requested size", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 40 }), fc.array(anyWave, { maxLength: 6 }), (zones, waves) => {
      const of_robot = assignWaves(
        zones.map((zone) => ({ labels: { zone } })),
        waves,
      );
      assert.equal(of_robot.length, zones.length);
      for (const [number, { percent, count, labels }] of waves.entries()) {
        const so_far = of_robot.filter((one) => one <= number).length;
        const before = of_robot.filter((one) => one < number).length;
        if (labels !== undefined) assert.ok(zones.every((zone, i) => zone !== labels.zone || (of_robot[i] as number) <= number));
        else assert.equal(so_far, Math.max(before, Math.min(zones.length, count ?? Math.ceil((zones.length * (percent as number)) / 100))));
      }
    }),
  );
});
