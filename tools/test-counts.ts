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

/** Of the test that stands for a whole file in a process of many. */
const WRAPPER = path.join(import.meta.dirname, "test-processes.ts");

/**
 * A node:test reporter that writes one JSON line of TestCounts. The runner's own summary has no stable format, reports a file without any
 * test as one passing test named after the file, and counts the tests that stand for files.
 */
export default async function* countTests(events: AsyncIterable<RunEvent>): AsyncGenerator<string> {
  const counts: TestCounts = { passed: 0, failed: 0, skipped: 0, empty_files: [], failed_files: [], seconds: {} };
  /** Of the file whose events arrive: the runner reports one file after the other. */
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
    // Its tests passed, or it has none: it crashed, or held its process open.
    if (type === "test:fail" ? tally.failed === 0 : counts.empty_files.at(-1) === name) counts.failed += 1;
    if (is_wrapper) endFile(name, data.details?.duration_ms ?? 0);
  }
}

/** The path of a test file, for that of the entry that ran it. */
const shown = (entry: string): string => fileOf(entry) ?? path.relative(root, path.resolve(entry));
