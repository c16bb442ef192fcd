import assert from "node:assert/strict";
import { test } from "node:test";
import { oneNodeOnly } from "../harness/nodes.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the output of one process") };
/** Makes a program run the statement on SIGUSR2. The statement throws an exception or rejects a promise. */
const throwing = (statement: string): Record<string, string> => ({
  NODE_OPTIONS: `--import=data:text/javascript,process.on(%22SIGUSR2%22,()=>{${encodeURIComponent(statement)}})`,
});

for (const [statement, origin] of [
  ['throw new Error("planned")', "uncaughtException"],
  ['Promise.reject(new Error("planned"))', "unhandledRejection"],
] as const)
  test(`a server logs the reason of an ${origin}, prints it on stderr, and ends with status 1`, LIMIT, async () => {
    await using server = await ServerProcess.start({ nodes: 1 });
    assert.equal(await server.program.stop(), 0);
    server.env = throwing(statement);
    await server.restart();
    server.program.child.kill("SIGUSR2");
    assert.deepEqual(await server.program.ended, { code: 1, signal: null });
    const { output } = server.program;
    const line = output.split("\n").find((one) => one.includes('"level":"fatal"'));
    assert.ok(line !== undefined, output.slice(-2_000));
    const { err, msg, origin: logged } = JSON.parse(line) as { err: { message: string }; msg: string; origin: string };
    assert.deepEqual([err.message, msg, logged], ["planned", "unexpected error: the server ends", origin]);
    assert.match(output, /^roamfleet: unexpected error: Error: planned/m);
  });
