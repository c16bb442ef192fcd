import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { seededRandom } from "@roamfleet/clock";
import { PACKAGED, RobotInVm } from "./robot-in-vm.ts";
import { MACHINES_FULL, whyNoVirtualMachine } from "./virtual-machine.ts";

const LIMIT = { timeout: 3_600_000, skip: MACHINES_FULL ? whyNoVirtualMachine() : "takes many minutes: npm run test:machines" };
/** The promise for the installation is one minute. The emulated processor is about ten times as slow as a robot's. */
const ONLINE_MS_MAX = 180_000;
const CUTS = 10;
const AGENT = "roamfleet-agent";

test("an app keeps running and loses no log line while the agent is killed, stopped, upgraded and rolled back", LIMIT, async (t) => {
  await using robot = await RobotInVm.start();
  const { machine } = robot;
  const online_ms = await robot.install();
  t.diagnostic(`online ${online_ms} ms after the start of the command`);
  assert.ok(online_ms < ONLINE_MS_MAX, `${online_ms} ms`);
  assert.equal((await robot.ended(await robot.deploy(await robot.pushApp("counter-1")))).status, "applied");
  const app = await robot.app();
  const stays = async (what: string): Promise<void> => assert.equal(await robot.app(), app, `the app has another process ${what}`);

  let before = await robot.agents();
  await machine.run(["kill", "-KILL", ...before]);
  await robot.reconnected(before);
  await stays("after kill -9 of the agent");

  await machine.run(["systemctl", "stop", AGENT]);
  assert.deepEqual(await robot.agents(), []);
  await stays("while the agent is stopped");
  await machine.run(["systemctl", "start", AGENT]);
  await robot.reconnected([]);
  await stays("after a stop and a start");

  before = await robot.agents();
  const began = performance.now();
  assert.equal((await robot.ended(await robot.deploy(await robot.pushAgent("0.2.0")))).status, "applied");
  t.diagnostic(`agent upgraded after ${Math.round(performance.now() - began)} ms`);
  await robot.reconnected(before);
  assert.equal(await robot.current(), "0.2.0");
  await stays("after an upgrade");

  const crashed = await robot.ended(await robot.deploy(await robot.pushAgent("0.3.0", "process.exit(3);")));
  assert.equal(crashed.status, "rolled_back");
  await robot.reconnected([]);
  assert.equal(await robot.current(), "0.2.0");
  await stays("after a version that crashes at its start");

  assert.equal((await robot.ended(await robot.deploy(await robot.pushAgent(PACKAGED)))).status, "applied");
  assert.equal(await robot.current(), PACKAGED);
  await stays("after a return to the first version");

  const lines = async (): Promise<number[]> =>
    (await robot.messages())
      .flatMap((message) => /^line (\d+) of counter-1$/.exec(message)?.[1] ?? [])
      .map(Number)
      .toSorted((a, b) => a - b);
  const last = (await lines()).length;
  await machine.until("later lines to arrive", async () => (await lines()).length > last);
  const numbers = await lines();
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => index + 1),
    "a line is missing or was repeated",
  );
});

test("after a power cut at any moment of an upgrade or deployment, one agent and the old or new version run", LIMIT, async (t) => {
  const seed = Number(process.env["ROAMFLEET_SEED"] ?? Date.now() % 100_000);
  t.diagnostic(`ROAMFLEET_SEED=${seed}`);
  const random = seededRandom(seed);
  await using robot = await RobotInVm.start();
  const { machine } = robot;
  await robot.install();
  const { id } = await robot.robot();
  const releases = {
    agent: { [PACKAGED]: await robot.pushAgent(PACKAGED), "0.2.0": await robot.pushAgent("0.2.0") },
    app: { "counter-1": await robot.pushApp("counter-1"), "counter-2": await robot.pushApp("counter-2") },
  };
  const running = { agent: PACKAGED, app: "counter-1" };
  assert.equal((await robot.ended(await robot.deploy(releases.app["counter-1"]))).status, "applied");
  // Duration of each change without a power cut.
  let began = performance.now();
  assert.equal((await robot.ended(await robot.deploy(releases.agent["0.2.0"]))).status, "applied");
  running.agent = "0.2.0";
  const times = { agent: performance.now() - began, app: 0 };
  began = performance.now();
  assert.equal((await robot.ended(await robot.deploy(releases.app["counter-2"]))).status, "applied");
  running.app = "counter-2";
  times.app = performance.now() - began;
  t.diagnostic(`undisturbed: agent ${Math.round(times.agent)} ms, app ${Math.round(times.app)} ms`);

  for (let cut = 0; cut < CUTS; cut += 1) {
    const what = cut % 2 === 0 ? "agent" : "app";
    const [next, release] = Object.entries(releases[what]).find(([name]) => name !== running[what])!;
    const wait_ms = Math.round(random() * times[what]);
    const deployment = await robot.deploy(release);
    await setTimeout(wait_ms);
    await machine.cutPower();
    await machine.boot();
    await robot.reconnected([]);
    const { status } = await robot.ended(deployment);
    if (status === "applied") running[what] = next;
    t.diagnostic(`power cut ${wait_ms} ms after the deployment of ${next}: ${status}, runs ${running.agent} and ${running.app}`);
    await machine.until("one agent to run", async () => (await robot.agents()).length === 1);
    assert.equal(await robot.current(), running.agent, "the agent's version");
    await machine.until("the app to run", async () => (await robot.appRelease()) === running.app);
    assert.equal((await robot.robot()).id, id, "the robot lost its identity");
  }
});
