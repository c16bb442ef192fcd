import Table from "cli-table3";
import type { Sample } from "./measure.ts";
import type { Results } from "./results.ts";
import type { RowResult } from "./row.ts";

/** Formats a figure and its range with significant digits only: 1.57 (1.00–1.63). */
function shown({ median, min, max }: Sample): string {
  const digits = median >= 1_000 ? 0 : median >= 100 ? 1 : 2;
  return min === max ? median.toFixed(digits) : `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}

const withUnit = (value: Sample | undefined, unit: string): string => (value === undefined ? "" : `${shown(value)} ${unit}`);

function ratioShown({ ratio, figure }: RowResult): string {
  if (ratio === undefined) return figure ?? "";
  return figure === undefined ? ratio.toFixed(2) : `${ratio.toFixed(2)} (${figure})`;
}

const verdict = ({ met }: RowResult): string => (met === undefined ? "" : met ? "met" : "MISSED");

const HEAD = ["operation", "ours", "limit", "ratio", "goal", "", "CPU µs ours", "CPU µs limit"];

/** One line of a table: name, ours, limit, ratio, goal, verdict and the CPU of both. */
export const cells = (name: string, line: RowResult): string[] => [
  name,
  withUnit(line.ours, line.unit),
  withUnit(line.limit, line.unit),
  ratioShown(line),
  line.goal ?? "",
  verdict(line),
  line.ours_cpu_us === undefined ? "" : shown(line.ours_cpu_us),
  line.limit_cpu_us === undefined ? "" : shown(line.limit_cpu_us),
];

/** Formats results for a terminal. */
export function tableOf(results: Results): string {
  const table = new Table({
    head: HEAD,
    style: { head: [], border: [] },
    chars: { mid: "", "left-mid": "", "mid-mid": "", "right-mid": "" },
  });
  for (const [name, measured] of Object.entries(results)) {
    for (const [i, line] of measured.lines.entries()) {
      table.push(cells(i === 0 ? [name, line.part].filter(Boolean).join(": ") : `  ${line.part ?? ""}`, line));
    }
  }
  return table.toString();
}
