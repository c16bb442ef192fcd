import { RfHome, type RfCall, type RfResult } from "../../packages/cli/src/testing/run-rf.ts";

export { RfHome, type RfCall, type RfResult };

/** Returns the single document that a call with --json prints. Fails if stdout contains anything else. */
export function documentOf(result: RfResult): unknown {
  const lines = result.stdout.trim().split("\n");
  if (lines.length !== 1) throw new Error(`stdout has ${lines.length} lines, not one document:\n${result.stdout}\n${result.stderr}`);
  return JSON.parse(lines[0] ?? "");
}
