import Table from "cli-table3";
import { compareResults } from "./compare.ts";
import type { Results } from "./results.ts";

/** A line in which two runs differ by more than the spread of the two. */
export interface Disagreement {
  row: string;
  part: string | null;
  /** Unit of an absolute figure; null for a ratio to the limit. */
  unit: string | null;
  /** The lowest and the highest figure of all runs, and the highest ÷ the lowest − 1. */
  min: number;
  max: number;
  change: number;
}

export interface Agreement {
  runs: number;
  /** Number of lines that at least two runs measured. */
  lines: number;
  disagreements: Disagreement[];
}

/** Compares each run with each other run, with the rules of `compareResults`. */
export function agreementOf(runs: readonly Results[]): Agreement {
  const lines = new Map<string, { is_beyond: boolean; row: string; part: string | null; unit: string | null; values: number[] }>();
  for (const [i, now] of runs.entries()) {
    for (const before of runs.slice(0, i)) {
      for (const change of compareResults(now, before)) {
        if (change.before === null || change.now === null) continue;
        const { row, part, unit, verdict } = change;
        const key = JSON.stringify([row, part]);
        const line = lines.get(key) ?? { is_beyond: false, row, part, unit, values: [] };
        lines.set(key, line);
        line.values.push(change.before, change.now);
        line.is_beyond ||= verdict !== "same";
      }
    }
  }
  const disagreements = [...lines.values()]
    .filter(({ is_beyond }) => is_beyond)
    .map(({ row, part, unit, values }) => {
      const [min, max] = [Math.min(...values), Math.max(...values)];
      return { row, part, unit, min, max, change: max / min - 1 };
    });
  return { runs: runs.length, lines: lines.size, disagreements };
}

/** Formats the lines in which runs differ, and how many lines agree. */
export function agreementTable({ runs, lines, disagreements }: Agreement): string {
  const agree = `${lines - disagreements.length} of ${lines} lines agree within their spread in ${runs} runs`;
  if (disagreements.length === 0) return agree;
  // The speed of a machine may change between runs. That changes absolute figures, but hardly ratios.
  const absolute = disagreements.filter(({ unit }) => unit !== null).length;
  const table = new Table({
    head: ["operation", "lowest", "highest", "difference"],
    style: { head: [], border: [] },
    chars: { mid: "", "left-mid": "", "mid-mid": "", "right-mid": "" },
  });
  for (const { row, part, unit, min, max, change } of disagreements) {
    const figure = (value: number): string => `${Number(value.toPrecision(4))}${unit === null ? "" : ` ${unit}`}`;
    table.push([part === null ? row : `${row}: ${part}`, figure(min), figure(max), `+${(change * 100).toFixed(0)} %`]);
  }
  return `${table.toString()}\n${agree}; absolute figures among the others, which also change with the speed of the machine: ${absolute}`;
}
