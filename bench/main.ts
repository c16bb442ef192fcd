import { readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { ROWS } from "./all-rows.ts";
import { agreementOf, agreementTable } from "./agreement.ts";
import { compareResults, comparisonTable } from "./compare.ts";
import { measureRows } from "./measure-rows.ts";
import { type BenchOptions, readOptions } from "./options.ts";
import { pageOf, REASONS_FILE, reasonsIn } from "./page.ts";
import { tableOf } from "./report.ts";
import { describeMachine, LATEST, mergeResults, readResults, type Results, thisMachine, UNWRITTEN } from "./results.ts";
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
  --compare A B C    show the lines in which kept runs differ by more than their spread
  --json             show the results, or the comparison, as JSON
  --out FILE         add the results to a file (without --write always to bench/results/unwritten.json)
  --profile DIR      write CPU profiles of the server, agents and limits there
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

async function writePage(): Promise<void> {
  const reasons = reasonsIn(await readFile(path.join(ROOT, REASONS_FILE), "utf8"));
  await writeFile(PAGE, pageOf(await readResults(LATEST), reasons));
}

const resultsOf = (name: string): Promise<Results> => readResults(name === "latest" ? LATEST : name === "baseline" ? BASELINE : name);

async function main(options: BenchOptions): Promise<void> {
  const { compare, json } = options;
  const print = (value: unknown, table: string): void =>
    void process.stdout.write(json ? `${JSON.stringify(value, null, 2)}\n` : `${table}\n`);
  if (compare.length > 1) {
    const agreement = agreementOf(await Promise.all(compare.map(resultsOf)));
    return print(agreement, agreementTable(agreement));
  }
  const latest = await readResults(LATEST).catch(() => ({}));
  const earlier = compare[0] === undefined ? undefined : await resultsOf(compare[0]);
  const [begun_at, load_begin, commit] = [new Date().toISOString(), os.loadavg(), commitNow()];
  if (options.rows.length > 0) announce(options, latest);
  const measured = async (results: Results): Promise<void> => {
    await mergeResults(options.write ? LATEST : UNWRITTEN, results);
    if (options.write) await writePage();
  };
  const { results, failed } = await measureRows(options, { say, measured });
  if (earlier === undefined) print({ rows: results }, tableOf(results));
  else {
    const changes = compareResults(options.rows.length > 0 ? results : latest, earlier);
    print(changes, comparisonTable(changes));
  }
  if (options.out !== undefined) await mergeResults(options.out, results);
  if (options.write) {
    const ended_at = new Date().toISOString();
    const run = { begun_at, ended_at, commit, machine: thisMachine(), load_begin, load_end: os.loadavg(), rows: results, failed };
    say(`written: ${path.relative(process.cwd(), PAGE)}, ${path.relative(process.cwd(), await keepRun(run))}\n`);
  }
  if (Object.keys(failed).length === 0) return;
  say(`failed rows: ${Object.keys(failed).join(", ")}\n`);
  process.exitCode = 1;
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
