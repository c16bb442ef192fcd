import { styleText } from "node:util";
import Table from "cli-table3";
import type { Sample } from "./measure.ts";
import type { Results } from "./results.ts";
import type { RowResult } from "./row.ts";

/** Result of the comparison with an earlier run. `same`: the difference is at most the spread of the two runs. */
export type Verdict = "better" | "worse" | "same" | "new" | "gone" | "no figure";

export interface Change {
  row: string;
  part: string | null;
  /** What `before` and `now` contain: the ratio to the limit, which is comparable across machines, or an absolute value of this machine. */
  of: "ratio" | "ours" | "limit";
  unit: string | null;
  before: number | null;
  now: number | null;
  /** now ÷ before − 1 */
  change: number | null;
  /** Half the range of the rounds, as a share of the figure. For two runs, it is √(a² + b²) of their spreads a and b. */
  spread: number | null;
  verdict: Verdict;
}

/** Relative changes below this minimum are ignored, even if the rounds vary less. */
const SPREAD_MIN = 0.03;

/**
 * Compares the lines of two runs in the order of the newer run. A removed line is reported if the newer run measured its row again. Rows
 * that the newer run did not measure are omitted.
 */
export function compareResults(now: Results, before: Results): Change[] {
  return Object.entries(now).flatMap(([row, { lines }]) => {
    const earlier = before[row]?.lines ?? [];
    const gone = earlier.filter(({ part }) => !lines.some((line) => line.part === part));
    return [
      ...lines.map((line) =>
        changeOf(
          row,
          line,
          earlier.find(({ part }) => part === line.part),
        ),
      ),
      ...gone.map((line) => ({
        ...changeOf(row, line, undefined),
        before: figureOf(line)?.value ?? null,
        now: null,
        verdict: "gone" as const,
      })),
    ];
  });
}

function changeOf(row: string, line: RowResult, earlier: RowResult | undefined): Change {
  const now = figureOf(line);
  // If the earlier run has no limit for this line, compare the absolute figures instead of the ratios.
  const before = earlier && now && figureOf(earlier, now.of);
  const named = { row, part: line.part ?? null, of: now?.of ?? "ours", unit: now?.of === "ratio" ? null : line.unit };
  if (now === undefined) return { ...named, before: null, now: null, change: null, spread: null, verdict: "no figure" };
  if (before === undefined) return { ...named, before: null, now: now.value, change: null, spread: now.spread, verdict: "new" };
  const spread = Math.max(SPREAD_MIN, Math.hypot(now.spread, before.spread));
  const change = before.value === 0 ? (now.value === 0 ? 0 : Infinity) : now.value / before.value - 1;
  // Compares factors instead of differences, so that halving counts as much as doubling.
  const is_beyond = Math.abs(Math.log1p(change)) > Math.log1p(spread);
  const verdict = is_beyond ? (change > 0 === (line.more_is_better === true) ? "better" : "worse") : "same";
  return { ...named, before: before.value, now: now.value, change, spread, verdict };
}

interface Figure {
  of: Change["of"];
  value: number;
  spread: number;
}

function figureOf({ ratio, ours, limit }: RowResult, of?: Change["of"]): Figure | undefined {
  if ((of ?? "ratio") === "ratio" && ratio !== undefined && Number.isFinite(ratio))
    return { of: "ratio", value: ratio, spread: Math.hypot(spreadOf(ours), spreadOf(limit)) };
  if ((of ?? "ours") === "ours" && ours !== undefined) return { of: "ours", value: ours.median, spread: spreadOf(ours) };
  if ((of ?? "limit") === "limit" && limit !== undefined) return { of: "limit", value: limit.median, spread: spreadOf(limit) };
  return undefined;
}

/** Half the distance between the lowest and the highest round, as a share of the median. */
function spreadOf(sample: Sample | undefined): number {
  if (sample === undefined || sample.median === 0) return 0;
  return (sample.max - sample.min) / 2 / sample.median;
}

const COLORS = { better: "green", worse: "red", same: "dim", new: "cyan", gone: "yellow", "no figure": "dim" } as const;

/** Formats the changes for a terminal, with colors if supported. */
export function comparisonTable(changes: readonly Change[]): string {
  const table = new Table({
    head: ["operation", "before", "now", "change", "spread", ""],
    style: { head: [], border: [] },
    chars: { mid: "", "left-mid": "", "mid-mid": "", "right-mid": "" },
  });
  for (const { row, part, unit, before, now, change, spread, verdict } of changes) {
    const figure = (value: number | null): string =>
      value === null ? "" : `${Number(value.toPrecision(4))}${unit === null ? "" : ` ${unit}`}`;
    const percent = change === null ? "" : `${change > 0 ? "+" : change < 0 ? "−" : ""}${Math.abs(change * 100).toFixed(0)} %`;
    const around = spread === null || change === null ? "" : `± ${(spread * 100).toFixed(0)} %`;
    const name = part === null ? row : `${row}: ${part}`;
    table.push([name, figure(before), figure(now), percent, around, styleText(COLORS[verdict], verdict, { stream: process.stdout })]);
  }
  const count = (wanted: Verdict): number => changes.filter(({ verdict }) => verdict === wanted).length;
  return `${table.toString()}\n${count("better")} better, ${count("worse")} worse, ${count("same")} the same within their spread`;
}
