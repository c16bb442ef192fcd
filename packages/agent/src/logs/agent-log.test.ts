import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "../contract.ts";
import { agentLog } from "./agent-log.ts";

test("writes a log entry as an escaped line and a record, a local entry only as a line", () => {
  const lines: string[] = [];
  const records: LogRecord[] = [];
  const at = new Date("2030-01-01T00:00:00Z");
  const { log, local } = agentLog({
    level: "info",
    now: () => at,
    print: (line) => void lines.push(line),
    sink: { write: (record) => void records.push(record) },
  });
  log.warn({ reason: "a\nb\u001b[2J", count: 2 }, "it happened");
  local.error({ x: 1 }, "stays here");
  log.debug("not at this level");
  assert.deepEqual(lines, [
    "2030-01-01T00:00:00.000Z warn  it happened reason=a\\u000ab\\u001b[2J count=2\n",
    "2030-01-01T00:00:00.000Z error stays here x=1\n",
  ]);
  assert.deepEqual(records, [
    { level: "warn", source: "agent", message: "it happened", fields: { reason: "a\nb\u001b[2J", count: 2 }, at },
  ]);
});
