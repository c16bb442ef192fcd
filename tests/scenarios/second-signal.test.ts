import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerProcess } from "../processes/server-process.ts";

test("a second SIGINT or SIGTERM ends a server that drains, and its database with it", { timeout: 300_000 }, async () => {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    await using server = await ServerProcess.start({ nodes: 1, args: ["--limit", "drain_seconds=3600"] });
    server.program.child.kill(signal);
    await server.program.until("the server to drain", () => /"msg":"stopping"/.exec(server.program.output)?.[0]);
    server.program.child.kill(signal);
    assert.deepEqual(await server.program.ended, { code, signal: null });
    assert.match(server.program.output, /second signal: ending without waiting for requests/);
    assert.deepEqual(server.processes(), []);
  }
});
