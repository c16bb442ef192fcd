import { peersOf } from "./peers.ts";
import { cells } from "./report.ts";
import { describeMachine, type Measured, type Results } from "./results.ts";
import { type Area, AREAS, type RowResult } from "./row.ts";

/** Path of the page that gives the reasons for missed goals, below headings with the row names. */
export const REASONS_FILE = "docs/reference/missed-goals.md";

/** Returns the names of all headings `### name` in the text of the page of missed goals. That page explains the results of these rows. */
export const reasonsIn = (page: string): ReadonlySet<string> =>
  new Set(Array.from(page.matchAll(/^### `?([a-z0-9-]+)`?$/gm), ([, name = ""]) => name));

const HEAD = ["operation", "ours", "limit", "ratio", "goal", "", "CPU µs ours", "CPU µs limit"];

/** Generates the documentation page: missed goals first, then every line by area, with machine, days and load. */
export function pageOf(results: Results, reasons: ReadonlySet<string>): string {
  const areas = (Object.keys(AREAS) as Area[]).flatMap((area) => {
    const rows = Object.entries(results).filter(([, row]) => row.area === area);
    return rows.length === 0 ? [] : [areaOf(AREAS[area], rows)];
  });
  return `# Performance

<!-- Written by \`npm run bench -- --write\` from bench/results/latest.json. -->

What the server takes for an operation, and beside it the limit: the least that the machine, Node.js and PostgreSQL take for the
same, measured by turns in one run. The ratio of the two says what is ours, and holds on other machines better than either
figure does. Each figure is the median of several rounds, with the lowest and the highest behind it.

${circumstances(Object.values(results))}

## Missed goals

${missedOf(results, reasons)}

${areas.join("\n\n")}

${peersOf(results)}

## Measuring

\`npm run bench\` measures all rows, \`--only NAME\` one of them, \`--skip NAME\` all but that one. What takes long (a million robots in the database)
is measured with \`--full\`, or by its name. Each row has a separate server process with an embedded PostgreSQL that syncs to
disk. Other work on the machine hits ours and the limit alike, yet a busy machine spreads the figures: look at the load.
\`--compare [FILE | latest | baseline]\` shows what changed beyond the spread, \`--profile DIR\` writes CPU profiles of the server, the agents and the limits,
\`--write\` makes this page and keeps the run in bench/results/runs. Memory is what \`VmRSS\` says, CPU what the scheduler counted for
all threads of the process.
`;
}

function circumstances(rows: readonly Measured[]): string {
  const machines = [...new Set(rows.map(({ machine }) => describeMachine(machine)))];
  const days = [...new Set(rows.map(({ measured_at }) => measured_at.slice(0, 10)))].toSorted();
  const between = (values: readonly number[]): string => `${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)}`;
  const quick = rows.some((row) => row.quick) ? "\n\n**Rows were measured with `--quick`: their figures mean little.**" : "";
  const ends = rows.flatMap(({ load_end }) => load_end ?? []);
  const after = ends.length === 0 ? "" : `; when it was over, its own work in it: ${between(ends)}`;
  return `Measured on ${machines.join("; ")}. ${days.length === 1 ? `Day: ${days[0]}` : `Days: ${days[0]} to ${days.at(-1)}`}. Load of the
machine before a row began: ${between(rows.map(({ load }) => load))}${after}.${quick}`;
}

/** `row: part` */
const nameOf = (row: string, { part }: RowResult): string => `\`${row}\`${part === undefined ? "" : `: ${part}`}`;

function missedOf(results: Results, reasons: ReadonlySet<string>): string {
  const missed = Object.entries(results).flatMap(([row, { lines }]) =>
    lines.flatMap((line) => {
      if (line.met !== false) return [];
      const [name = "", ours = "", limit = "", ratio = "", goal = ""] = cells(nameOf(row, line), line);
      return [[name, ours, limit, ratio, goal, reasons.has(row) ? `[why](missed-goals.md#${row})` : "not known yet"]];
    }),
  );
  const goals = Object.values(results).flatMap(({ lines }) => lines.filter(({ met }) => met !== undefined)).length;
  if (missed.length === 0) return `None of ${goals}.`;
  return `${missed.length} of ${goals}.\n\n${markdown(["operation", "ours", "limit", "ratio", "goal", "reason"], missed)}`;
}

function areaOf(title: string, rows: readonly (readonly [string, Measured])[]): string {
  const lines = rows.flatMap(([row, measured]) => measured.lines.map((line) => cells(nameOf(row, line), line)));
  const about = rows.map(([row, measured]) => `- \`${row}\`: ${measured.about}.`);
  return `## ${title}\n\n${markdown(HEAD, lines)}\n\n${about.join("\n")}`;
}

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (row: readonly string[]): string => `| ${row.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${head.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}
