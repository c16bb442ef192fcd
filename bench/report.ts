import Table from "cli-table3";
import type { Sample } from "./measure.ts";
import { describeMachine, type Measured, type Results } from "./results.ts";
import type { RowResult } from "./row.ts";

/** 1.57 (1.00–1.63), with as many digits as say something. */
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

/** The figure that is compared between runs: the ratio, or what ours takes where nothing stands beside it. */
const comparable = ({ ratio, ours, limit }: RowResult): number | undefined => ratio ?? ours?.median ?? limit?.median;

/** How a line changed since an earlier run: `1.50 → 1.42 (−5 %)`. */
function change(line: RowResult, earlier: Measured | undefined): string {
  const before = earlier?.lines.find(({ part }) => part === line.part);
  const [a, b] = [before && comparable(before), comparable(line)];
  if (a === undefined || b === undefined) return "";
  const percent = Math.round((b / a - 1) * 100);
  return `${a.toFixed(2)} → ${b.toFixed(2)} (${percent > 0 ? "+" : percent < 0 ? "−" : ""}${Math.abs(percent)} %)`;
}

const HEAD = ["operation", "ours", "limit", "ratio", "goal", "", "CPU µs ours", "CPU µs limit"];

const cells = (name: string, line: RowResult): string[] => [
  name,
  withUnit(line.ours, line.unit),
  withUnit(line.limit, line.unit),
  ratioShown(line),
  line.goal ?? "",
  verdict(line),
  line.ours_cpu_us === undefined ? "" : shown(line.ours_cpu_us),
  line.limit_cpu_us === undefined ? "" : shown(line.limit_cpu_us),
];

/** For a terminal. With `earlier` also what changed since. */
export function tableOf(results: Results, earlier: Results | undefined): string {
  const compared = earlier === undefined ? [] : ["change of the ratio"];
  const table = new Table({
    head: [...HEAD, ...compared],
    style: { head: [], border: [] },
    chars: { mid: "", "left-mid": "", "mid-mid": "", "right-mid": "" },
  });
  for (const [name, measured] of Object.entries(results)) {
    for (const [i, line] of measured.lines.entries()) {
      const label = i === 0 ? [name, line.part].filter(Boolean).join(": ") : `  ${line.part ?? ""}`;
      table.push([...cells(label, line), ...(earlier === undefined ? [] : [change(line, earlier[name])])]);
    }
  }
  return table.toString();
}

/** The page of the documentation: the same figures, with the machine and the day. */
export function pageOf(results: Results): string {
  const measured = Object.values(results);
  const machines = [...new Set(measured.map(({ machine }) => describeMachine(machine)))];
  const days = [...new Set(measured.map(({ measured_at }) => measured_at.slice(0, 10)))].toSorted();
  const loads = measured.map(({ load }) => load);
  return `# Speed

<!-- Written by \`npm run bench -- --write\` from the last results. -->

What the server takes for an operation, and beside it the limit: the least that the machine, Node.js and PostgreSQL take for the
same, measured by turns in one run. The ratio of the two says what is ours, and holds on other machines better than either
figure does. Each figure is the median of several rounds, with the lowest and the highest behind it.

Measured on ${machines.join("; ")}. ${days.length === 1 ? `Day: ${days[0]}` : `Days: ${days[0]} to ${days.at(-1)}`}. Load of the
machine before a row began: ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}.${measured.some(({ quick }) => quick) ? "\n\n**Rows were measured with `--quick`: their figures mean little.**" : ""}

${markdown(
  ["operation", "ours", "limit", "ratio", "goal", ""],
  Object.entries(results).flatMap(([name, { lines }]) =>
    lines.flatMap((line, i) => (i === 0 ? [cells(`\`${name}\``, line).slice(0, 6)] : [])),
  ),
)}

## What is measured

${Object.entries(results)
  .map(([name, row]) => section(name, row))
  .join("\n\n")}

## Measuring

\`npm run bench\` measures all rows, \`npm run bench -- --only NAME\` one of them. Each row has a server of its own, as a process of
its own, with an embedded PostgreSQL that syncs to disk. Other work on the machine hits ours and the limit alike, yet a busy
machine spreads the figures: look at the load that is printed. \`--compare FILE\` shows the change against earlier results,
\`--profile DIR\` writes a CPU profile of the server, \`--write\` makes this page. Memory is what \`VmRSS\` says, CPU what the scheduler
counted for all threads of the process.
`;
}

function section(name: string, { about, lines }: Measured): string {
  const head = `### \`${name}\`\n\n${about.charAt(0).toUpperCase()}${about.slice(1)}.`;
  if (lines.length === 1) return head;
  const rows = lines.map((line) => {
    const [label = "", ours = "", limit = "", ratio = "", , , ours_cpu = "", limit_cpu = ""] = cells(line.part ?? name, line);
    return [label, ours, limit, ratio, ours_cpu, limit_cpu];
  });
  const has_cpu = lines.some(({ ours_cpu_us }) => ours_cpu_us !== undefined);
  const columns = has_cpu ? 6 : 4;
  return `${head}\n\n${markdown(
    ["", "ours", "limit", "ratio", "CPU µs ours", "CPU µs limit"].slice(0, columns),
    rows.map((row) => row.slice(0, columns)),
  )}`;
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (row: readonly string[]): string => `| ${row.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}
