import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { AGENT_APP, isTerminal } from "@roamfleet/protocol";
import type { Deployment, DeploymentTarget } from "@roamfleet/protocol/routes";
import type { Client } from "@roamfleet/sdk";
import { until } from "@roamfleet/clock/testing";
import { pushBundle } from "../processes/app-bundle.ts";
import { AgentVersions, ARCH, EXITS, type Fault, LaunchedAgent, VERSION } from "../processes/launched-agent.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SmallDisk } from "../processes/small-disk.ts";

const LIMIT = { timeout: 300_000 };
let versions: AgentVersions;
let server: ServerProcess;
let api: Client;
let place: { site_id: string; fleet_id: string };

before(async () => {
  versions = await AgentVersions.build();
  server = await ServerProcess.start();
  ({ api } = await server.org("self-update"));
  const site_id = (await api.createSite({ body: { name: "site" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "fleet", site_id } })).data.id;
  place = { site_id, fleet_id };
}, LIMIT);
after(async () => {
  await server[Symbol.asyncDispose]();
  versions[Symbol.dispose]();
}, LIMIT);

interface Robot extends AsyncDisposable {
  agent: LaunchedAgent;
  id: string;
}

async function startRobot(options: { place?: string; env?: Record<string, string> } = {}): Promise<Robot> {
  const name = randomUUID();
  const { key } = (await api.createEnrollmentKey({ body: { ...place, max_uses: 1 } })).data;
  const agent = new LaunchedAgent({ url: server.url, key: key ?? "", name, versions, ...options });
  try {
    const found = await until(
      "the robot to connect",
      async () => (await api.listRobots({ query: { q: name } })).items.find(({ status }) => status === "online"),
      { detail: () => agent.output },
    );
    return { agent, id: found.id, [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
  } catch (error) {
    await agent[Symbol.asyncDispose]();
    throw error;
  }
}

const push = (version: string, bytes: Buffer, arch = ARCH): Promise<string> =>
  pushBundle(api, randomUUID(), bytes, { kind: "agent", app: AGENT_APP, manifest: { version, arch } });

async function deploy({ id: robot_id }: Robot, release: string): Promise<string> {
  const body = { release, robot_id, rollout: { verify_seconds: 0 } };
  return (await api.createDeployment({ body, idempotency_key: randomUUID() })).data.id;
}

const ended = ({ agent }: Robot, id: string): Promise<Deployment> =>
  until(
    `deployment ${id} to end`,
    async () => {
      const { data } = await api.getDeployment({ params: { id } });
      return isTerminal(data.status) && data;
    },
    { detail: () => agent.output.slice(-6_000), deadline_ms: 120_000 },
  );

const targetOf = async (id: string): Promise<DeploymentTarget> => {
  const [target] = (await api.listDeploymentTargets({ params: { id } })).items;
  assert.ok(target !== undefined);
  return target;
};

const agentVersion = async ({ id }: Robot): Promise<string | null> => (await api.getRobot({ params: { id } })).data.agent_version;

/** Deploys a version with a fault. Asserts that the old version runs again, and returns how the deployment ended. */
async function deployBad(robot: Robot, version: string, bytes: Buffer, arch?: string): Promise<[string, string | null]> {
  const id = await deploy(robot, await push(version, bytes, arch));
  const { status } = await ended(robot, id);
  await robot.agent.runs(VERSION);
  assert.equal(robot.agent.current, VERSION);
  await until("the old version to be online", async () => (await agentVersion(robot)) === VERSION);
  return [status, (await targetOf(id)).reason];
}

test("an agent is upgraded twice and rolled back, and the robot keeps two versions", LIMIT, async () => {
  await using robot = await startRobot();
  const [pid] = robot.agent.agents().map((one) => one.pid);
  const releases: string[] = [];
  for (const version of ["0.2.0", "0.3.0"]) {
    const release = await push(version, versions.tarball(version));
    releases.push(release);
    const id = await deploy(robot, release);
    assert.equal((await ended(robot, id)).status, "applied", robot.agent.output.slice(-6_000));
    await robot.agent.runs(version);
    assert.equal(robot.agent.current, version);
    await until("the version in the list of robots", async () => (await agentVersion(robot)) === version);
  }
  assert.notEqual(robot.agent.agents()[0]?.pid, pid);
  await until("the oldest version to be deleted", () => !robot.agent.versions.includes(VERSION));
  const back = await deploy(robot, releases[0] ?? "");
  assert.equal((await ended(robot, back)).status, "applied");
  await robot.agent.runs("0.2.0");
  assert.deepEqual(robot.agent.versions.toSorted(), ["0.2.0", "0.3.0"]);
});

test("rolling back an applied agent version returns to the packaged version", LIMIT, async () => {
  await using robot = await startRobot();
  const id = await deploy(robot, await push("0.2.0", versions.tarball("0.2.0")));
  assert.equal((await ended(robot, id)).status, "applied");
  const { data } = await api.rollBackDeployment({ params: { id }, idempotency_key: randomUUID() });
  await ended(robot, data.id);
  assert.equal((await targetOf(data.id)).status, "applied");
  await robot.agent.runs(VERSION);
  await until("the old version to be confirmed", () => robot.agent.current === VERSION);
});

test("deployments of unusable agent versions end with a reason and leave the old agent running", LIMIT, async () => {
  await using robot = await startRobot();
  const pid = () => robot.agent.agents().map((one) => one.pid);
  assert.deepEqual(await deployBad(robot, "0.2.0", versions.tarball("0.2.0", EXITS)), ["rolled_back", "crash_loop"]);
  const before_refusals = pid();
  const other: Fault = { arch: "riscv64" };
  assert.deepEqual(await deployBad(robot, "0.4.0", versions.tarball("0.4.0", other), "riscv64"), ["failed", "incompatible"]);
  assert.deepEqual(await deployBad(robot, "0.4.0", versions.tarball("0.4.0", other)), ["failed", "incompatible"]);
  const whole = versions.tarball("0.5.0");
  assert.deepEqual(await deployBad(robot, "0.5.0", whole.subarray(0, whole.length / 2)), ["failed", "rejected_by_robot"]);
  assert.deepEqual(await deployBad(robot, "0.6.0", whole), ["failed", "rejected_by_robot"]);
  assert.deepEqual(pid(), before_refusals);
  assert.deepEqual(
    readdirSync(robot.agent.root).filter((name) => name.endsWith(".partial")),
    [],
  );
  // A version that failed before can be deployed again.
  assert.deepEqual(await deployBad(robot, "0.2.0", versions.tarball("0.2.0", EXITS)), ["rolled_back", "crash_loop"]);
});

test("a deployment of the running agent version is applied without a restart", LIMIT, async () => {
  await using robot = await startRobot();
  const before_deployment = robot.agent.agents();
  const id = await deploy(robot, await push(VERSION, versions.tarball(VERSION)));
  assert.equal((await ended(robot, id)).status, "applied");
  assert.deepEqual(robot.agent.agents(), before_deployment);
});

test("an agent deployment to a full disk fails before it changes anything", LIMIT, async (t) => {
  using disk = SmallDisk.mount(80);
  if (disk === undefined) return t.skip("this user cannot mount a file system");
  await using robot = await startRobot({ place: disk.directory });
  disk.fill(1024 * 1024);
  const result = await deployBad(robot, "0.2.0", versions.tarball("0.2.0"));
  assert.deepEqual(result, ["failed", "insufficient_disk"]);
  assert.deepEqual(robot.agent.versions, [VERSION]);
});

test("an agent on a read-only disk keeps running and refuses agent releases", LIMIT, async (t) => {
  using disk = SmallDisk.mount(80);
  if (disk === undefined) return t.skip("this user cannot mount a file system");
  await using robot = await startRobot({ place: disk.directory });
  // The robot's files can be deleted only when the disk is writable again.
  using cleanup = new DisposableStack();
  cleanup.defer(() => disk.makeReadOnly(false));
  const { agent } = robot;
  const release = await push("0.2.0", versions.tarball("0.2.0"));
  disk.makeReadOnly();
  const id = await deploy(robot, release);
  assert.equal((await ended(robot, id)).status, "failed");
  assert.equal((await targetOf(id)).reason, "incompatible");
  await agent.runs(VERSION);
  // The file `next` requests a new version and was written before the disk became read-only. The launcher must not end the agent for this
  // request repeatedly.
  await agent.stop();
  disk.makeReadOnly(false);
  writeFileSync(path.join(agent.root, "next"), "0.2.0\n");
  disk.makeReadOnly();
  agent.start();
  await agent.runs(VERSION);
  const [running] = agent.agents();
  const beats = (): number => Number(readFileSync(path.join(agent.state, "run-files/heartbeat"), "utf8"));
  await until("three heartbeats, which are longer than the launcher waits", () => beats() >= 3, { detail: () => agent.output });
  assert.deepEqual(agent.agents(), [running]);
});

test("a robot killed at any step of an agent upgrade has one agent of the old or the new version", LIMIT, async () => {
  for (const [step, happened] of [
    ["requested", (root: string) => existsSync(path.join(root, "next")) || existsSync(path.join(root, "trial.1"))],
    ["started", (root: string) => existsSync(path.join(root, "trial.1"))],
  ] as const)
    for (const victim of ["launcher", "agent"]) {
      await using robot = await startRobot();
      const { agent } = robot;
      const id = await deploy(robot, await push("0.2.0", versions.tarball("0.2.0")));
      await until(`the version to be ${step}`, () => happened(agent.root), { poll_ms: 2, detail: () => agent.output });
      if (victim === "launcher") {
        await agent.kill();
        agent.start();
      } else for (const { pid } of agent.agents()) process.kill(pid, "SIGKILL");
      const { status } = await ended(robot, id);
      assert.ok(status === "applied" || status === "rolled_back", `${step}, ${victim}: ${status}`);
      const version = status === "applied" ? "0.2.0" : VERSION;
      await agent.runs(version);
      assert.equal(agent.current, version, `${step}, ${victim}`);
    }
});
