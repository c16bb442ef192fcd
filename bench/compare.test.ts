import assert from "node:assert/strict";
import { test } from "node:test";
import { compareResults, comparisonTable } from "./compare.ts";
import { type Measured, type Results, thisMachine } from "./results.ts";
import type { RowResult } from "./row.ts";

const measured = (...lines: RowResult[]): Measured => ({
  area: "api",
  about: "a thing",
  measured_at: "2030-01-02T03:04:05.000Z",
  machine: thisMachine(),
  load: 0.25,
  took_s: 1,
  quick: false,
  lines,
});
const around = (median: number, spread: number) => ({ median, min: median * (1 - spread), max: median * (1 + spread) });
const verdictsOf = (now: Results, before: Results) => compareResults(now, before).map(({ row, part, verdict }) => [row, part, verdict]);

test("reports a change only if it exceeds the spread of both runs", () => {
  const before = { row: measured({ ours: around(100, 0.1), limit: around(50, 0), unit: "µs", ratio: 2 }) };
  const now = (ratio: number, spread = 0.01): Results => ({
    row: measured({ ours: around(ratio * 50, spread), limit: around(50, 0), unit: "µs", ratio }),
  });
  assert.deepEqual(verdictsOf(now(2.1), before), [["row", null, "same"]]);
  assert.deepEqual(verdictsOf(now(2.3), before), [["row", null, "worse"]]);
  assert.deepEqual(verdictsOf(now(1.7), before), [["row", null, "better"]]);
  assert.deepEqual(verdictsOf(now(2.3, 0.2), before), [["row", null, "same"]]);
  const [change] = compareResults(now(2.3), before);
  assert.deepEqual([change?.before, change?.now, change?.of, change?.unit], [2, 2.3, "ratio", null]);
  assert.ok(Math.abs((change?.change ?? 0) - 0.15) < 1e-9 && Math.abs((change?.spread ?? 0) - Math.hypot(0.1, 0.01)) < 1e-9);
});

test("ignores a small change even if the measured rounds have no spread", () => {
  const of = (ratio: number): Results => ({ row: measured({ ours: around(ratio, 0), unit: "µs", ratio }) });
  assert.deepEqual(verdictsOf(of(1.02), of(1)), [["row", null, "same"]]);
  assert.deepEqual(verdictsOf(of(1.05), of(1)), [["row", null, "worse"]]);
});

test("counts an increase as better for rows with more_is_better", () => {
  const of = (ratio: number): Results => ({ row: measured({ ours: around(ratio, 0), unit: "MB/s", ratio, more_is_better: true }) });
  assert.deepEqual(verdictsOf(of(0.6), of(0.3)), [["row", null, "better"]]);
  assert.deepEqual(verdictsOf(of(0.3), of(0.6)), [["row", null, "worse"]]);
});

test("compares the absolute figures of benchmark lines that have no ratio", () => {
  const of = (value: number): Results => ({
    row: measured({ ours: around(value, 0), unit: "ms" }, { part: "bare", limit: around(value, 0), unit: "ms" }),
  });
  assert.deepEqual(
    compareResults(of(2), of(1)).map(({ of, unit, verdict }) => [of, unit, verdict]),
    [
      ["ours", "ms", "worse"],
      ["limit", "ms", "worse"],
    ],
  );
  const with_ratio = { row: measured({ ours: around(2, 0), unit: "ms", ratio: 9 }) };
  assert.deepEqual(
    verdictsOf(with_ratio, { row: measured({ ours: around(2, 0), unit: "ms" }) }),
    [["row", null, "new"]],
    "different kinds of figures are not compared",
  );
});

test("a comparison reports new and removed lines, and omits rows that were not measured again", () => {
  const line = (part: string): RowResult => ({ part, ours: around(1, 0), unit: "ms" });
  const now = { row: measured(line("kept"), line("came")), none: measured({ part: "empty", unit: "ms" }) };
  const before = { row: measured(line("kept"), line("went")), other: measured(line("kept")) };
  assert.deepEqual(verdictsOf(now, before), [
    ["row", "kept", "same"],
    ["row", "came", "new"],
    ["row", "went", "gone"],
    ["none", "empty", "no figure"],
  ]);
});

test("the comparison table counts the verdicts, and has no colors without a terminal", () => {
  const of = (ratio: number): Results => ({ "get-robot": measured({ ours: around(ratio, 0), unit: "µs", ratio }) });
  const table = comparisonTable(compareResults(of(1.5), of(1.2)));
  assert.match(table, /get-robot +│ 1\.2 +│ 1\.5 +│ \+25 % +│ ± 3 % +│/);
  assert.match(table, /0 better, 1 worse, 0 the same/);
});
