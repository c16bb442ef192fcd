import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricGate } from "@roamfleet/protocol/metric-gate";
import fc from "fast-check";
import { checkMetric, type MeasuredRobot, type MeasuredSeries, metricChecksOf, outsideOf, storedChecks } from "./gate-checks.ts";

const NOW = new Date("2030-01-01T00:00:00Z");
const series = (now: number | null, before: number | null = null, last_at: Date | null = NOW): MeasuredSeries => ({ now, before, last_at });
const robot = (...of: MeasuredSeries[]): MeasuredRobot => ({ robot_id: "rob_1", series: of });
const gate = (bound: Partial<MetricGate>): MetricGate => ({ name: "memory", aggregation: "mean", ...bound });

const BOUNDS: [name: string, bound: Partial<MetricGate>, MeasuredSeries, expected: boolean | undefined][] = [
  ["above the bound", { above: 5 }, series(6), true],
  ["at the bound", { above: 5 }, series(5), false],
  ["below the bound", { below: 5 }, series(4), true],
  ["more than 10% above its value before", { rise_percent: 10 }, series(111, 100), true],
  ["10% above its value before", { rise_percent: 10 }, series(110, 100), false],
  ["below its value before, with a bound on its rise", { rise_percent: 10 }, series(1, 100), false],
  ["more than 10% below its value before", { fall_percent: 10 }, series(89, 100), true],
  ["less negative than before by more than 10%", { rise_percent: 10 }, series(-80, -100), true],
  ["above a value of 0 before", { rise_percent: 10 }, series(1, 0), true],
  ["without samples", { above: 5 }, series(null), undefined],
  ["without samples before its update", { rise_percent: 10 }, series(5), undefined],
];
for (const [name, bound, of, expected] of BOUNDS)
  test(`a series is ${expected === undefined ? "missing" : expected ? "outside" : "inside"} if it is ${name}`, () => {
    const found = outsideOf(gate(bound), of);
    assert.equal(found === undefined ? undefined : found !== null, expected);
  });

const anySeries = fc.record({
  now: fc.option(fc.integer({ min: 0, max: 10 })),
  before: fc.constant(null),
  last_at: fc.option(fc.nat(600).map((seconds) => new Date(NOW.getTime() - seconds * 1_000))),
});
const anyRobots = fc.array(
  fc.array(anySeries, { maxLength: 2 }).map((of) => robot(...of)),
  { minLength: 1, maxLength: 12 },
);
const above = (tolerate_percent: number) => gate({ above: 5, tolerate_percent });

test("a check fails if and only if more robots are outside than tolerated", () => {
  fc.assert(
    fc.property(anyRobots, fc.constantFrom(0, 10, 50, 100), (robots, percent) => {
      const outside = robots.filter(({ series: all }) => all.some(({ now }) => now !== null && now > 5)).length;
      assert.equal(checkMetric(above(percent), robots).fails, outside > Math.floor((robots.length * percent) / 100));
    }),
  );
});

test("a metric check covers a time if no more robots than tolerated are outside or have no samples until then", () => {
  fc.assert(
    fc.property(anyRobots, fc.constantFrom(0, 10, 50), fc.nat(600), (robots, percent, seconds) => {
      const { fails, covered_until } = checkMetric(above(percent), robots);
      const time = new Date(NOW.getTime() - seconds * 1_000);
      const good = robots.filter(
        ({ series: all }) =>
          all.length > 0 && all.every(({ now, last_at }) => now !== null && now <= 5 && last_at !== null && last_at >= time),
      ).length;
      const tolerated = Math.floor((robots.length * percent) / 100);
      if (!fails) assert.equal(covered_until !== null && covered_until >= time, robots.length - good <= tolerated);
    }),
  );
});

test("a resume accepts a check that fails, until it was inside and fails again", () => {
  const of = gate({ above: 5 });
  const bad = checkMetric(of, [robot(series(6))]);
  const good = checkMetric(of, [robot(series(4))]);
  const later = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1_000);
  const first = storedChecks([bad], null, NOW);
  assert.equal(metricChecksOf([of], first, null)[0]?.fails, true);
  const second = storedChecks([bad], first, later(60));
  assert.equal(metricChecksOf([of], second, later(30))[0]?.fails, false);
  const third = storedChecks([good], second, later(120));
  const fourth = storedChecks([bad], third, later(180));
  assert.equal(metricChecksOf([of], fourth, later(30))[0]?.fails, true);
  assert.equal(metricChecksOf([of], null, null)[0]?.covered_until, null, "nothing is covered before the first measurement");
});
