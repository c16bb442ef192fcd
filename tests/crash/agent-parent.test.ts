import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { startPlane } from "../harness/index.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { processesNaming } from "../processes/process.ts";
import { Ledger } from "./ledger.ts";
import { Scenario } from "./scenario.ts";

const LIMIT = { timeout: 300_000 };
/** Starts the agent as a child and waits for it, like a service manager or a terminal. */
const PARENT = ["sh", "-c", `"$@" & wait`, "parent"];

/** Returns the agent's process ID from its lock file. Undefined briefly, while the next agent takes over the lock of a killed agent. */
function agentOf(state: string): number | undefined {
  const file = path.join(state, "agent.lock");
  try {
    return (JSON.parse(readFileSync(file, "utf8")) as { pid: number }).pid;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

test("an agent keeps running after kill -9 of its parent process and refuses a second agent", LIMIT, async () => {
  await using plane = await startPlane();
  const org = await plane.org();
  const scenario: Scenario = new Scenario(new Ledger(() => plane.url, org.admin_token), () => robot);
  const { key } = await scenario.prepare();
  await using robot = new AgentProcess({ url: plane.url, key, name: "cart", within: PARENT });
  await scenario.waitForRobot();
  const parent = robot.program.child;
  const agent = agentOf(robot.state);
  assert.ok(agent !== undefined && agent !== parent.pid);
  parent.kill("SIGKILL");
  parent.stdout?.destroy();
  parent.stderr?.destroy();
  await until("the parent to end", () => !robot.program.running);
  assert.equal(await scenario.deploy("two"), "applied");
  assert.equal(await scenario.runs(), "two");
  assert.equal(agentOf(robot.state), agent);

  // Start the agent again, as a service manager does when its child has ended.
  delete robot.options.within;
  robot.restart();
  assert.equal((await robot.program.ended).code, 6, robot.program.output);
  assert.equal(await scenario.runs(), "two");

  process.kill(agent, "SIGKILL");
  await until("the agent to end", () => processesNaming(robot.state).every(({ pid }) => pid !== agent));
  robot.restart();
  await robot.program.until("the next agent to take the lock", () => agentOf(robot.state) === robot.program.child.pid);
  assert.equal(await scenario.runs(), "two");
  assert.equal(await scenario.deploy("one"), "applied");
  assert.equal(await scenario.runs(), "one");
});
