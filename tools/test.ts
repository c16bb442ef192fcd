import { existsSync, globSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Ending, endLike, runChild } from "../bin/run-child.mjs";
import { root } from "../bin/launch.mjs";
import { ensureDebianPackages } from "./debian.ts";
import type { Tally, TestCounts } from "./test-counts.ts";

// Timeout of a single test or file, so that no run hangs.
const TEST_TIMEOUT_MS = 10 * 60_000;
/** With more failed files than this, a rerun is not attempted. */
const RERUN_FILES_MAX = 2;
const NOTHING_RAN: TestCounts = { passed: 0, failed: 0, skipped: 0, empty_files: [], failed_files: [] };
const FOLDERS = ["packages", "tools", "tests", "bench"];

const given = process.argv.slice(2);
const nodes = takeOption("--nodes");
const options = given.filter((argument) => argument.startsWith("-"));
const filters = given.filter((argument) => !argument.startsWith("-"));

await main();

/**
 * `npm test -- [--nodes N] [PATH PART…] [--node-test-option…]`: all test files, or those whose path contains one of the parts, with
 * planes of N server nodes.
 */
async function main(): Promise<void> {
  if (nodes !== undefined && !/^[1-9]$/.test(nodes)) return finish(NOTHING_RAN, false, `--nodes ${nodes}: expected 1 to 9`);
  // Test files run in separate processes, which read it in tests/harness/nodes.ts.
  if (nodes !== undefined) process.env.ROAMFLEET_TEST_NODES = nodes;
  // Hundreds of processes load the same sources, so they share compiled code.
  process.env.NODE_COMPILE_CACHE ??= path.join(root, "node_modules", ".cache", "compile");
  const files = findTestFiles();
  if (files.length === 0) return finish(NOTHING_RAN, false, `no test file matches ${filters.join(" ") || FOLDERS.join(" ")}`);
  await ensureDebianPackages((line) => process.stderr.write(`roamfleet: ${line}\n`));
  const first = await runNodeTests(files);
  const { ending, counts } = process.env.CI && mayBeUnstable(first.counts) ? await runAgain(first.counts) : first;
  if (ending.signal !== null) return endLike(ending);
  if (counts === undefined) return finish({ ...NOTHING_RAN, failed: 1 }, false, "the test runner ended without a summary");
  finish(counts, ending.code === 0);
}

function mayBeUnstable(counts: TestCounts | undefined): counts is TestCounts {
  if (counts === undefined || counts.failed === 0 || counts.failed_files.length > RERUN_FILES_MAX) return false;
  return counts.failed === total(counts.failed_files).failed;
}

/**
 * In CI one or two failed files are run once more, alone. A file that passes then is reported as unstable at the end, with its output
 * above: a defect in the test or the tested code, but no reason to reject another change.
 */
async function runAgain(first: TestCounts): Promise<TestRun> {
  const files = first.failed_files.map(({ file }) => path.relative(root, file));
  process.stdout.write(`roamfleet: failed, run once more: ${files.join(" ")}\n`);
  const { ending, counts } = await runNodeTests(files);
  if (counts === undefined) return { ending, counts };
  const before = total(first.failed_files);
  const failed_again = new Set(counts.failed_files.map(({ file }) => path.relative(root, file)));
  for (const file of files) if (!failed_again.has(file)) process.stdout.write(`roamfleet: UNSTABLE, failed and then passed: ${file}\n`);
  return {
    ending,
    counts: {
      ...counts,
      passed: first.passed - before.passed + counts.passed,
      skipped: first.skipped - before.skipped + counts.skipped,
    },
  };
}

function total(tallies: readonly Tally[]): Tally {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of tallies) {
    sum.passed += passed;
    sum.failed += failed;
    sum.skipped += skipped;
  }
  return sum;
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
}

async function runNodeTests(files: readonly string[]): Promise<TestRun> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-test-"));
  try {
    const counts_file = path.join(directory, "counts.json");
    // Built once before the first of them starts, because each server would build it otherwise.
    if (files.some((file) => file.startsWith("tests/dashboard/"))) process.env.ROAMFLEET_TEST_DASHBOARD = "1";
    const ending = await runChild(process.execPath, nodeArguments(counts_file, files), { cwd: root });
    return { ending, counts: await readCounts(counts_file) };
  } finally {
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
    // Three files at once on 2 cores: each waits for processes half of its time. With more, timeouts of real processes expire.
    "--test-concurrency=3",
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
