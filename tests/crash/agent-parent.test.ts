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
/** Starts the agent as a child and waits for it, as a service manager or a terminal does. */
const PARENT = ["sh", "-c", `"$@" & wait`, "parent"];

/** Undefined while there is none: a killed agent's lock is missing briefly when the next agent takes it over. */
function agentOf(state: string): number | undefined {
  const file = path.join(state, "agent.lock");
  try {
    return (JSON.parse(readFileSync(file, "utf8")) as { pid: number }).pid;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

test(
  "kill -9 of the agent's parent, with the pipe of its output: it continues; a second one is refused; after its kill the next one runs one workload",
  LIMIT,
  async () => {
    await using plane = await startPlane();
    const org = await plane.org();
    const scenario: Scenario = new Scenario(new Ledger(() => plane.url, org.admin_token), () => robot);
    const { key } = await scenario.prepare();
    await using robot = new AgentProcess({ url: plane.url, key, name: "cart", within: PARENT });
    await scenario.meetRobot();
    const parent = robot.program.child;
    const agent = agentOf(robot.state);
    assert.ok(agent !== undefined && agent !== parent.pid);
    parent.kill("SIGKILL");
    parent.stdout?.destroy();
    parent.stderr?.destroy();
    await until("the parent to be gone", () => !robot.program.running);
    assert.equal(await scenario.deploy("two"), "applied");
    assert.equal(await scenario.runs(), "two");
    assert.equal(agentOf(robot.state), agent);

    // What a service manager does that believes the service to be down.
    delete robot.options.within;
    robot.restart();
    assert.equal((await robot.program.ended).code, 6, robot.program.output);
    assert.equal(await scenario.runs(), "two");

    process.kill(agent, "SIGKILL");
    await until("the agent to be gone", () => processesNaming(robot.state).every(({ pid }) => pid !== agent));
    robot.restart();
    await robot.program.until("the next agent to work", () => agentOf(robot.state) === robot.program.child.pid);
    assert.equal(await scenario.runs(), "two");
    assert.equal(await scenario.deploy("one"), "applied");
    assert.equal(await scenario.runs(), "one");
  },
);
