import assert from "node:assert/strict";
import { test } from "node:test";
import { agreementOf, agreementTable } from "./agreement.ts";
import { type Results, thisMachine } from "./results.ts";

/** A run in which each row has one line with this median and relative spread. */
const run = (rows: Record<string, readonly [median: number, spread: number]>): Results =>
  Object.fromEntries(
    Object.entries(rows).map(([name, [median, spread]]) => [
      name,
      {
        area: "api" as const,
        about: name,
        measured_at: "2030-01-02T03:04:05.000Z",
        machine: thisMachine(),
        load: 0,
        took_s: 1,
        quick: false,
        lines: [{ ours: { median, min: median * (1 - spread), max: median * (1 + spread) }, unit: "ms" }],
      },
    ]),
  );

test("runs agree in lines whose medians are within the spread of the others", () => {
  const agreement = agreementOf([
    run({ steady: [100, 0.1], drifting: [100, 0.05] }),
    run({ steady: [105, 0.1], drifting: [104, 0.05] }),
    run({ steady: [96, 0.1], drifting: [120, 0.05], other: [1, 0] }),
  ]);
  assert.equal(agreement.lines, 2, "a line of one run only is not compared");
  assert.deepEqual(
    agreement.disagreements.map(({ row, min, max }) => [row, min, max]),
    [["drifting", 100, 120]],
  );
  assert.match(agreementTable(agreement), /drifting +│ 100 ms +│ 120 ms +│ \+20 %/);
  assert.match(agreementTable(agreement), /1 of 2 lines agree within their spread in 3 runs; absolute figures among the others, [^:]*: 1$/);
});
