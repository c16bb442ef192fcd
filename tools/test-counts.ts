import path from "node:path";

/** What a whole run came to. A cancelled test (timeout, crashed file) counts as failed, a todo as skipped. */
export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
  /** Files that hold no test at all: each counts as failed. */
  empty_files: string[];
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
 * A node:test reporter that writes one JSON line of TestCounts: the runner's own summary has no stable form, and
 * a file without any test is reported by it as one passing test named after the file.
 */
export default async function* countTests(events: AsyncIterable<RunEvent>): AsyncGenerator<string> {
  const empty_files: string[] = [];
  for await (const { type, data } of events) {
    if (type === "test:pass" && data.nesting === 0 && data.name !== undefined && path.resolve(data.name) === data.file) {
      empty_files.push(data.name);
    }
    if (type !== "test:summary" || data.file !== undefined || data.counts === undefined) continue;
    const { passed, failed, cancelled, skipped, todo } = data.counts;
    const counts: TestCounts = {
      passed: passed - empty_files.length,
      failed: failed + cancelled + empty_files.length,
      skipped: skipped + todo,
      empty_files,
    };
    yield `${JSON.stringify(counts)}\n`;
  }
}
