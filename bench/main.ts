import { readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { ROWS } from "./all-rows.ts";
import { compareResults, comparisonTable } from "./compare.ts";
import { type BenchOptions, readOptions } from "./options.ts";
import { pageOf, REASONS_FILE, reasonsIn } from "./page.ts";
import { tableOf } from "./report.ts";
import { describeMachine, LATEST, mergeResults, readResults, type Results, thisMachine, UNWRITTEN } from "./results.ts";
import { withRig } from "./rig.ts";
import type { Row, RowResult } from "./row.ts";
import { commitNow, keepRun } from "./runs.ts";

/** `npm run bench`: measures our server and a limit alternately in one run. */

const ROOT = path.resolve(import.meta.dirname, "..");
const PAGE = path.join(ROOT, "docs/reference/performance.md");
const BASELINE = path.join(path.dirname(LATEST), "baseline.json");

const help = (): string => `npm run bench [-- OPTIONS]

  --only NAME        that row; may be repeated
  --skip NAME        not that row; may be repeated
  --full             also what takes long, and growth to a million robots
  --growth SIZES     robots in the database for the rows of growth: 10k,100k,1M
  --write            write docs/reference/performance.md and bench/results/latest.json, and keep the run in bench/results/runs
  --compare [WITH]   show what changed since latest, baseline or a file. Without a row to measure: from there to what was measured last
  --json             show the results, or the comparison, as JSON
  --out FILE         add the results to a file (without --write always to bench/results/unwritten.json)
  --profile DIR      write CPU profiles of the server and the limits there
  --quick            few rounds and robots: to see that the rows run

${ROWS.map(({ name, about, only_full }) => `  ${name.padEnd(20)}${about}${only_full === true ? " (with --full)" : ""}`).join("\n")}
`;

/** Assumed duration of a row that has not been measured yet. */
const UNKNOWN_S = 90;

/** Prints without a line break to stderr, so that the JSON output on stdout stays valid. */
const say = (text: string): void => void process.stderr.write(text);

function announce({ rows }: BenchOptions, latest: Results): void {
  const seconds = rows.reduce((sum, { name }) => sum + (latest[name]?.took_s ?? UNKNOWN_S), 0);
  const load = os.loadavg().map((one) => one.toFixed(2));
  say(`${describeMachine(thisMachine())}; load ${load.join(" ")}\n${rows.length} rows, about ${Math.ceil(seconds / 60)} minutes\n`);
}

async function measure(row: Row, { quick, profile, growth }: BenchOptions): Promise<Results> {
  const [[load = Number.NaN], started] = [os.loadavg(), performance.now()];
  const measured_at = new Date().toISOString();
  say(`${row.name} (load ${load.toFixed(2)}): ${row.about} …\n`);
  const found: RowResult[] = [];
  // A separate server for each row, so that none inherits memory or tables of another.
  await withRig({ ...row.server, quick, profile, growth }, async (rig) => {
    found.push(...[await row.run(rig)].flat());
  });
  const [load_end = Number.NaN] = os.loadavg();
  const took_s = Math.round((performance.now() - started) / 1_000);
  const { area, about } = row;
  return { [row.name]: { area, about, measured_at, machine: thisMachine(), load, load_end, took_s, quick, lines: found } };
}

async function writePage(): Promise<void> {
  const reasons = reasonsIn(await readFile(path.join(ROOT, REASONS_FILE), "utf8"));
  await writeFile(PAGE, pageOf(await readResults(LATEST), reasons));
}

async function main(options: BenchOptions): Promise<void> {
  const latest = await readResults(LATEST).catch(() => ({}));
  const { compare } = options;
  const earlier =
    compare === undefined ? undefined : compare === "latest" ? latest : await readResults(compare === "baseline" ? BASELINE : compare);
  const [begun_at, load_begin, commit] = [new Date().toISOString(), os.loadavg(), commitNow()];
  const results: Results = {};
  if (options.rows.length > 0) announce(options, latest);
  for (const row of options.rows) {
    Object.assign(results, await measure(row, options));
    // Saved after each row, so that an interrupted run is not lost.
    await mergeResults(options.write ? LATEST : UNWRITTEN, results);
    if (options.write) await writePage();
  }
  const shown = options.rows.length > 0 ? results : latest;
  if (earlier !== undefined) {
    const changes = compareResults(shown, earlier);
    process.stdout.write(options.json ? `${JSON.stringify(changes, null, 2)}\n` : `${comparisonTable(changes)}\n`);
  } else process.stdout.write(options.json ? `${JSON.stringify({ rows: results }, null, 2)}\n` : `${tableOf(results)}\n`);
  if (options.out !== undefined) await mergeResults(options.out, results);
  if (!options.write) return;
  const ended_at = new Date().toISOString();
  const file = await keepRun({ begun_at, ended_at, commit, machine: thisMachine(), load_begin, load_end: os.loadavg(), rows: results });
  say(`written: ${path.relative(process.cwd(), PAGE)}, ${path.relative(process.cwd(), file)}\n`);
}

let options: BenchOptions;
try {
  options = readOptions(process.argv.slice(2), ROWS);
} catch (error) {
  process.stderr.write(`bench: ${(error as Error).message}\n`);
  process.exit(2);
}
if (options.help) process.stdout.write(help());
else await main(options);
