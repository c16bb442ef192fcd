import { existsSync, globSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Ending, endLike, runChild } from "../bin/run-child.mjs";
import { root } from "../bin/launch.mjs";
import { ensureDebianPackages } from "./debian.ts";
import { startGuard } from "./process-guard.ts";
import type { Tally, TestCounts } from "./test-counts.ts";
import { CONCURRENCY, keepDurations, readProblems, watchFiles, writeEntries } from "./test-processes.ts";

// Timeout of a single test or file, so that no run hangs.
const TEST_TIMEOUT_MS = 10 * 60_000;
const NOTHING_RAN: TestCounts = { passed: 0, failed: 0, skipped: 0, empty_files: [], failed_files: [], seconds: {} };
const FOLDERS = ["packages", "tools", "tests", "bench"];

const given = process.argv.slice(2);
const nodes = takeOption("--nodes");
const machines_at = given.indexOf("--machines");
if (machines_at >= 0) given.splice(machines_at, 1);
const options = given.filter((argument) => argument.startsWith("-"));
const filters = given.filter((argument) => !argument.startsWith("-"));

await main();

/**
 * `npm test -- [--nodes N] [--machines] [PATH PART…] [--node-test-option…]`: all test files, or those whose path contains one of the
 * parts, with control planes of N server nodes, and with all machines of tests/machines.
 */
async function main(): Promise<void> {
  if (nodes !== undefined && !/^[1-9]$/.test(nodes)) return finish(NOTHING_RAN, false, `--nodes ${nodes}: expected 1 to 9`);
  // Pass N as a variable, because test files run in separate processes. tests/harness/nodes.ts reads it.
  if (nodes !== undefined) process.env.ROAMFLEET_TEST_NODES = nodes;
  if (machines_at >= 0) process.env.ROAMFLEET_MACHINES = "full";
  // Hundreds of processes load the same sources, so they share compiled code.
  process.env.NODE_COMPILE_CACHE ??= path.join(root, "node_modules", ".cache", "compile");
  const files = findTestFiles();
  if (files.length === 0) return finish(NOTHING_RAN, false, `no test file matches ${filters.join(" ") || FOLDERS.join(" ")}`);
  await ensureDebianPackages((line) => process.stderr.write(`roamfleet: ${line}\n`));
  const first = await runNodeTests(files);
  const doubtful = process.env.CI ? findDoubtful(first) : undefined;
  const { ending, counts } = doubtful && first.counts ? await runAgain(first.counts, doubtful) : first;
  if (ending.signal !== null) return endLike(ending);
  if (counts === undefined) return finish({ ...NOTHING_RAN, failed: 1 }, false, "the test runner ended without a summary");
  const lost = files.filter((file) => first.counts?.seconds[file] === undefined);
  const problems = lost.length === 0 ? first.problems : [...first.problems, `did not end: ${lost.join(" ")}`];
  const failures = counts.failed || Math.max(first.problems.length, lost.length);
  if (problems.length > 0) return finish({ ...counts, failed: failures }, false, problems.join("\nroamfleet: "));
  if (process.env.UPDATE_DURATIONS === "1" && filters.length === 0) await keepDurations(counts.seconds);
  finish(counts, ending.code === 0);
}

/** Files that failed the run, perhaps by chance, and are run once more. */
interface Doubtful {
  files: string[];
  /** Their tests of the first run; undefined if all of them have passed. */
  before: Tally | undefined;
}

/**
 * Returns the files to run once more: the failed file if there is only one, or, if all tests passed but one process did not exit, the files
 * of that process. Otherwise returns undefined.
 */
function findDoubtful({ counts, problems, stuck }: TestRun): Doubtful | undefined {
  if (counts === undefined || problems.length > 0) return undefined;
  const [failed, ...others] = counts.failed_files;
  if (failed === undefined && stuck.length === 1 && counts.failed === 1) return { files: stuck.flat(), before: undefined };
  if (failed === undefined || others.length > 0 || counts.failed !== failed.failed) return undefined;
  return { files: [failed.file], before: failed };
}

/**
 * Runs the doubtful files of a CI run once more, alone. If they then pass, reports them as unstable: the test or the tested code has a
 * defect, but that is no reason to reject another change.
 */
async function runAgain(first: TestCounts, { files, before }: Doubtful): Promise<Omit<TestRun, "stuck">> {
  const names = files.join(" ");
  // Without a file, `node --test` would run every test that it finds.
  if (files.length === 0) {
    process.stdout.write("roamfleet: UNSTABLE, a test process without files did not exit\n");
    return { ending: { code: 0, signal: null }, counts: { ...first, failed: 0 }, problems: [] };
  }
  process.stdout.write(`roamfleet: failed, run once more: ${names}\n`);
  const { ending, counts } = await runNodeTests(files);
  if (counts === undefined) return { ending, counts, problems: [] };
  if (counts.failed === 0) process.stdout.write(`roamfleet: UNSTABLE, failed and then passed: ${names}\n`);
  return {
    ending,
    problems: [],
    counts: {
      ...counts,
      passed: first.passed - (before ?? counts).passed + counts.passed,
      skipped: first.skipped - (before ?? counts).skipped + counts.skipped,
      seconds: { ...first.seconds, ...counts.seconds },
    },
  };
}

/** Returns the value after an option, or after its `=`, and removes both from the arguments. */
function takeOption(name: string): string | undefined {
  const at = given.findIndex((argument) => argument === name || argument.startsWith(`${name}=`));
  if (at < 0) return undefined;
  if (given[at] !== name) return given.splice(at, 1)[0]?.slice(name.length + 1);
  return given.splice(at, 2)[1] ?? "";
}

interface TestRun {
  ending: Ending;
  counts: TestCounts | undefined;
  /** Failures outside of any test. */
  problems: string[];
  /** The files of each process that did not exit after its tests. */
  stuck: string[][];
}

async function runNodeTests(files: readonly string[]): Promise<TestRun> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-test-"));
  const guard = startGuard();
  const watch = watchFiles(directory);
  try {
    const counts_file = path.join(directory, "counts.json");
    // Build the dashboard once before these tests start, because each server would build it otherwise.
    if (files.some((file) => file.startsWith("tests/dashboard/"))) process.env.ROAMFLEET_TEST_DASHBOARD = "1";
    // A single file, and files with options of Node such as a name pattern, each run in a separate process that Node starts.
    const are_many = files.length > 1 && options.length === 0;
    const entries = are_many ? await writeEntries(directory, files) : files;
    // Bundle the programs that tests start. Otherwise they run from source, because bundling takes a second.
    if (are_many) process.env.ROAMFLEET_TEST_PROGRAMS = "1";
    const ending = await runChild(process.execPath, nodeArguments(counts_file, entries), { cwd: root });
    return { ending, counts: await readCounts(counts_file), problems: await readProblems(directory), stuck: watch.stop() };
  } finally {
    watch.stop();
    await guard.end();
    await rm(directory, { recursive: true, force: true });
  }
}

function findTestFiles(): string[] {
  const found = globSync(`{${FOLDERS.join(",")}}/**/*.test.ts`, {
    cwd: root,
    exclude: (name) => name === "node_modules" || name === "dist",
  });
  return found.filter((file) => filters.length === 0 || filters.some((part) => file.includes(part))).toSorted();
}

function nodeArguments(counts_file: string, files: readonly string[]): string[] {
  const setup = path.join(root, "tests", "harness", "global-setup.ts");
  return [
    "--test",
    `--import=${path.join(import.meta.dirname, "test-attribution.ts")}`,
    `--test-concurrency=${CONCURRENCY}`,
    `--test-timeout=${TEST_TIMEOUT_MS}`,
    ...(existsSync(setup) ? [`--test-global-setup=${setup}`] : []),
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    `--test-reporter=${path.join(import.meta.dirname, "test-counts.ts")}`,
    `--test-reporter-destination=${counts_file}`,
    ...options,
    ...files,
  ];
}

async function readCounts(file: string): Promise<TestCounts | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as TestCounts;
  } catch {
    return undefined;
  }
}

/** The last line is for programs: exactly `N passed, N failed, N skipped`. */
function finish(counts: TestCounts, runner_succeeded: boolean, problem?: string): void {
  const succeeded = runner_succeeded && counts.failed === 0 && counts.passed + counts.skipped > 0;
  for (const file of counts.empty_files) process.stderr.write(`roamfleet: ${file} holds no test, which counts as failed\n`);
  if (problem !== undefined) process.stderr.write(`roamfleet: ${problem}\n`);
  else if (!succeeded && counts.failed === 0) process.stderr.write("roamfleet: the test runner failed outside of any test\n");
  process.exitCode = succeeded ? 0 : 1;
  process.stdout.write(`npm test: exit ${succeeded ? 0 : 1}, ${Math.round(performance.now() / 1000)} s\n`);
  process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
}
