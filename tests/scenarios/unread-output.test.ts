import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { oneNodeOnly } from "../harness/nodes.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import type { Program } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the output of one process") };
/** More characters than the pipe and the program buffer, so that the program drops later lines until its output is read. */
const FILLER = 2 * 1024 ** 2;
/** Makes a program write FILLER characters before its first own line. */
const filled = (stream: "stdout" | "stderr"): Record<string, string> => ({
  NODE_OPTIONS: `--import=data:text/javascript,process.${stream}.write(%22-%22.repeat(${FILLER})%2B%22%5Cn%22)`,
});

/** Waits for the end of a program whose output is not read. `ended` would also wait for the end of the output. */
async function exitOf({ child }: Program): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false;
  }
}

const DROPPED = /"lines":(\d+),"msg":"dropped log lines that stdout did not accept"/g;

test("a server whose stdout is not read responds and stops normally, and reports dropped log lines", LIMIT, async () => {
  await using server = await ServerProcess.start({ nodes: 1 });
  assert.equal(await server.program.stop(), 0);
  server.env = filled("stdout");

  server.program = server.run();
  server.program.child.stdout?.pause();
  await server.program.until("the server to answer", () => answers(server.own_url));
  const metrics = await (await fetch(`${server.own_url}/metrics`)).text();
  assert.match(metrics, /^roamfleet_server_log_lines_dropped_total [1-9]/m);
  server.program.child.kill("SIGTERM");
  assert.equal(await exitOf(server.program), 0);
  server.program.child.stdout?.resume();
  await server.program.ended;

  server.program = server.run();
  server.program.child.stdout?.pause();
  await server.program.until("the server to answer", () => answers(server.own_url));
  assert.doesNotMatch(server.program.output, /listening/);
  server.program.child.stdout?.resume();
  await server.program.until("the number of dropped lines", () => server.program.output.match(DROPPED)?.[0]);
  assert.equal(await server.program.stop(), 0);
  const [dropped, ...more] = server.program.output.matchAll(DROPPED);
  assert.ok(Number(dropped?.[1]) > 0 && more.length === 0, server.program.output.slice(-2_000));
  assert.match(server.program.output, /"msg":"stopped"\}\n$/);
});

test("an agent whose stderr is not read stops on SIGTERM", LIMIT, async () => {
  const nowhere = "http://127.0.0.1:9";
  await using robot = new AgentProcess({ url: nowhere, key: "enr_none", name: "cart-1", env: filled("stderr") }, { start: false });
  robot.restart();
  const { child } = robot.program;
  child.stderr?.pause();
  await robot.program.until("the agent to start", () => readdirSync(robot.state).length > 0);
  child.kill("SIGTERM");
  assert.equal(await exitOf(robot.program), 0);
  child.stderr?.resume();
  await robot.program.ended;
});
