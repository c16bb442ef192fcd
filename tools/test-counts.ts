import path from "node:path";
import { root } from "../bin/launch.mjs";
import { fileOf } from "./test-processes.ts";

/** A cancelled test (timeout, crashed file) counts as failed, a todo as skipped. */
export interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

/** The counts of a whole run. */
export interface TestCounts extends Tally {
  /** Files without any test: each counts as failed. */
  empty_files: string[];
  /** Files that ran to their end with failed tests. Crashed files are not included. */
  failed_files: (Tally & { file: string })[];
  /** How long each file took. */
  seconds: Record<string, number>;
}

interface RunEvent {
  type: string;
  data: {
    file?: string;
    name?: string;
    nesting?: number;
    skip?: unknown;
    todo?: unknown;
    details?: { type?: string; duration_ms?: number };
    counts?: unknown;
    duration_ms?: number;
  };
}

/** The file that the runner reports for a test that runs a whole test file in a shared process. */
const WRAPPER = path.join(import.meta.dirname, "test-processes.ts");

/**
 * A node:test reporter that writes one JSON line of TestCounts. The runner's own summary has no stable format, reports a file without any
 * test as one passing test named after the file, and also counts the tests that only run a whole file.
 */
export default async function* countTests(events: AsyncIterable<RunEvent>): AsyncGenerator<string> {
  const counts: TestCounts = { passed: 0, failed: 0, skipped: 0, empty_files: [], failed_files: [], seconds: {} };
  /** Counts of the current file. The runner reports one file after the other. */
  let tally: Tally = { passed: 0, failed: 0, skipped: 0 };
  const endFile = (file: string, ms: number): void => {
    counts.seconds[file] = Math.round(ms / 1000);
    if (tally.failed > 0) counts.failed_files.push({ file, ...tally });
    for (const kind of ["passed", "failed", "skipped"] as const) counts[kind] += tally[kind];
    tally = { passed: 0, failed: 0, skipped: 0 };
  };
  for await (const { type, data } of events) {
    if (type === "test:summary") {
      if (data.file === undefined) {
        endFile("", 0);
        delete counts.seconds[""];
        yield `${JSON.stringify(counts)}\n`;
      } else if (fileOf(data.file) !== "shared") endFile(shown(data.file), data.duration_ms ?? 0);
      continue;
    }
    if ((type !== "test:pass" && type !== "test:fail") || data.details?.type === "suite") continue;
    const is_process = data.nesting === 0 && data.name !== undefined && path.resolve(data.name) === data.file;
    const is_wrapper = data.nesting === 0 && data.file === WRAPPER;
    if (!is_process && !is_wrapper) {
      tally[data.todo !== undefined || data.skip !== undefined ? "skipped" : type === "test:pass" ? "passed" : "failed"] += 1;
      continue;
    }
    const name = is_wrapper ? (data.name ?? "") : shown(data.name ?? "");
    const has_tests = tally.passed + tally.failed + tally.skipped > 0;
    if (type === "test:pass" && !has_tests && name !== "shared") counts.empty_files.push(name);
    // Count a file as failed if it has no tests, or if it failed although its tests passed: it crashed or kept its process open.
    if (type === "test:fail" ? tally.failed === 0 : counts.empty_files.at(-1) === name) counts.failed += 1;
    if (is_wrapper) endFile(name, data.details?.duration_ms ?? 0);
  }
}

/** Returns the path of the test file that an entry runs. */
const shown = (entry: string): string => fileOf(entry) ?? path.relative(root, path.resolve(entry));
