import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import type { Client } from "@roamfleet/sdk";
import { readProcess } from "../../packages/agent/src/runtime/processes.ts";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { processesNaming } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000 };
const ROUNDS = 10;
/** Time until the scheduled deployment starts. Within this time, the server is killed and stopped. */
const HELD_MS = 12_000;
/** Timeout of waits that need the robot to reconnect to the killed server. */
const WITH_ROBOT = { deadline_ms: ROBOT_BACK_MS };

let server: ServerProcess;
let api: Client;
let robot: AgentProcess;
let robot_id = "";
const releases: Record<string, string> = {};

before(async () => {
  server = await ServerProcess.start({ args: ["--limit", "token_requests_per_minute=100000", "--limit", "token_burst=100000"] });
  ({ api } = await server.org("Killed"));
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  robot = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1" });
  robot_id = await robot.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  for (const tag of ["one", "two"]) releases[tag] = await pushBundle(api, tag, await appBundle());
  await deployed("one");
}, LIMIT);

after(async () => {
  await robot?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
}, LIMIT);

const start = async (tag: string, scheduled_at?: string): Promise<string> =>
  (
    await api.createDeployment({
      body: { release: tag, robot_id, scheduled_at, rollout: { verify_seconds: 1 } },
      idempotency_key: randomUUID(),
    })
  ).data.id;

async function ended(id: string): Promise<string> {
  const look = async (): Promise<string | false> => {
    const { status } = (await api.getDeployment({ params: { id } })).data;
    return isTerminal(status) && status;
  };
  return until(`deployment ${id} to end`, look, WITH_ROBOT);
}

async function deployed(tag: string): Promise<void> {
  assert.equal(await ended(await start(tag)), "applied");
}

/** Returns the release of the robot's processes. They must all run the same release, and the server must report it too. */
function runs(): Promise<string> {
  const look = async (): Promise<string | false | undefined> => {
    const running = new Set(robot.workloads().map(({ env }) => env.ROAMFLEET_RELEASE ?? ""));
    const [only] = running;
    const { current_release, status } = (await api.getRobot({ params: { id: robot_id } })).data;
    return running.size === 1 && status === "online" && current_release?.tag === only && only;
  };
  return until("one version to run, and the server to know which", look, WITH_ROBOT);
}

/** Returns the pid of the robot's only program, without the child processes of its script. */
function program(): number {
  const leaders = robot.workloads().filter(({ pid }) => readProcess(pid)?.group === pid);
  assert.equal(leaders.length, 1);
  return leaders[0]!.pid;
}

/** Waits until the robot has reached this step of a deployment, or a later one. */
async function reached(id: string, step: string): Promise<void> {
  await until(`the robot to be ${step}`, async () => {
    const { items } = await api.listDeploymentEvents({ params: { id }, query: { include: "targets" } });
    return items.some(({ target_status, status }) => target_status === step || isTerminal(status));
  });
}

/** Moments of the kill, in turn: immediately after the deployment was created, and at later steps. */
const MOMENTS = [undefined, "dispatched", "staged", "installing", "verifying"] as const;

for (let round = 0; round < ROUNDS; round += 1) {
  const moment = MOMENTS[round % MOMENTS.length];
  const when = `${moment ?? "just made"} (${round + 1} of ${ROUNDS})`;

  test(`a deployment ends with one running version after kill -9 of the server while it is ${when}`, LIMIT, async () => {
    const old = await runs();
    const wanted = old === "one" ? "two" : "one";
    const id = await start(wanted);
    if (moment !== undefined) await reached(id, moment);
    await server.program.kill();
    await server.restart();
    const status = await ended(id);
    assert.equal(await runs(), status === "applied" ? wanted : old, `ended ${status}`);
  });

  test(`a deployment ends with one running version after kill -9 of the agent while it is ${when}`, LIMIT, async () => {
    const old = await runs();
    const wanted = old === "one" ? "two" : "one";
    const id = await start(wanted);
    if (moment !== undefined) await reached(id, moment);
    await robot.program.kill();
    robot.restart();
    const status = await ended(id);
    assert.equal(await runs(), status === "applied" ? wanted : old, `ended ${status}`);
  });
}

test("a scheduled deployment is dispatched once at its time, even if the server was killed before", { timeout: 540_000 }, async () => {
  const status = async (id: string): Promise<string> => (await api.getDeployment({ params: { id } })).data.status;
  // If the server has not restarted twice before the start time, the test repeats with a later start time.
  for (let held_ms = HELD_MS, is_seen = false; !is_seen;) {
    const old = await runs();
    const wanted = old === "one" ? "two" : "one";
    const made_ms = Date.now();
    const due_ms = made_ms + held_ms;
    const id = await start(wanted, new Date(due_ms).toISOString());
    await server.program.kill();
    await server.restart();
    const after_kill = await status(id);
    assert.equal(await server.program.stop(), 0);
    await server.restart();
    const seen = [after_kill, await status(id), await runs()];
    const took_ms = Date.now() - made_ms;
    is_seen = took_ms < held_ms;
    held_ms = 2 * took_ms;
    if (is_seen) assert.deepEqual(seen, ["scheduled", "scheduled", old]);
    assert.equal(await ended(id), "applied");
    assert.equal(await runs(), wanted);
    const { items } = await api.listDeploymentEvents({ params: { id }, query: { include: "targets" } });
    assert.equal(items.filter(({ target_status }) => target_status === "dispatched").length, 1);
  }
});

const ALONE = { ...LIMIT, skip: oneNodeOnly("the lock of an embedded database") };

test("a second server on the same data directory exits with an error, and the first one continues", ALONE, async () => {
  const second = server.run("127.0.0.1:0");
  const { code } = await second.ended;
  assert.equal(code, 2, second.output);
  assert.match(second.output, /another|already|in use/i);
  assert.doesNotMatch(second.output, /\n\s+at /);
  assert.equal((await api.request("GET", "/readyz")).status, 200);
});

test("the program keeps its pid when the agent is stopped or killed, and stop-workloads ends it", LIMIT, async () => {
  await runs();
  const pid = program();
  assert.equal(await robot.program.stop(), 0, robot.program.output.slice(-2_000));
  assert.equal(program(), pid);
  robot.restart();
  const isAdopted = (): boolean => robot.program.output.includes("workload adopted");
  await robot.program.until("the program to be adopted", isAdopted);
  assert.equal(program(), pid);
  assert.equal(await robot.stopWorkloads(), 6, "an agent runs");
  await robot.program.kill();
  robot.restart();
  await robot.program.until("the program to be adopted again", isAdopted);
  await runs();
  assert.equal(program(), pid);
  await robot.program.kill();
  assert.equal(await robot.stopWorkloads(), 0);
  assert.deepEqual(robot.workloads(), []);
  robot.restart();
  await until("another process of the same release", () => robot.workloads().length > 0);
  assert.notEqual(program(), pid);
});

test("robot and server leave no processes behind after a stop of the workloads", LIMIT, async () => {
  assert.ok(robot.workloads().length > 0);
  assert.equal(await robot.program.stop(), 0, robot.program.output.slice(-2_000));
  assert.equal(await robot.stopWorkloads(), 0);
  await until("the server to see the robot go", async () => (await api.getRobot({ params: { id: robot_id } })).data.status === "offline");
  assert.equal(await server.program.stop(), 0, server.program.output.slice(-2_000));
  assert.deepEqual(processesNaming(robot.state), []);
  assert.deepEqual(server.processes(), []);
});
