import path from "node:path";

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
}

interface RunEvent {
  type: string;
  data: {
    file?: string;
    name?: string;
    nesting?: number;
    counts?: { passed: number; failed: number; cancelled: number; skipped: number; todo: number };
  };
}

/**
 * A node:test reporter that prints one JSON line of TestCounts. The runner's own summary has no stable format, and reports a file without
 * tests as one passing test named after the file.
 */
export default async function* countTests(events: AsyncIterable<RunEvent>): AsyncGenerator<string> {
  const empty_files: string[] = [];
  const failed_files: TestCounts["failed_files"] = [];
  for await (const { type, data } of events) {
    if (type === "test:pass" && data.nesting === 0 && data.name !== undefined && path.resolve(data.name) === data.file) {
      empty_files.push(data.name);
    }
    if (type !== "test:summary" || data.counts === undefined) continue;
    const tally = tallyOf(data.counts);
    if (data.file !== undefined) {
      if (tally.failed > 0) failed_files.push({ file: data.file, ...tally });
      continue;
    }
    const counts: TestCounts = {
      passed: tally.passed - empty_files.length,
      failed: tally.failed + empty_files.length,
      skipped: tally.skipped,
      empty_files,
      failed_files,
    };
    yield `${JSON.stringify(counts)}\n`;
  }
}

function tallyOf({ passed, failed, cancelled, skipped, todo }: NonNullable<RunEvent["data"]["counts"]>): Tally {
  return { passed, failed: failed + cancelled, skipped: skipped + todo };
}
