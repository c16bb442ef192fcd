import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { runCommand } from "./run-command.ts";

test("a command whose signal is aborted before it starts ends immediately", { timeout: 120_000 }, async () => {
  const signal = AbortSignal.abort();
  const { ok, message } = await runCommand({
    argv: ["/bin/sleep", "600"],
    cwd: "/",
    env: {},
    timeout_ms: 600_000,
    clock: systemClock,
    signal,
  });
  assert.deepEqual([ok, message], [false, "ended by SIGKILL"]);
});
