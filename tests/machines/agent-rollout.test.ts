import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import type { Deployment, Rollout } from "@roamfleet/protocol/routes";
import type { Client } from "@roamfleet/sdk";
import { pushBundle } from "../processes/app-bundle.ts";
import { AgentVersions, ARCH, EXITS, type Fault, LaunchedAgent, VERSION } from "../processes/launched-agent.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SwarmProcess } from "../processes/swarm-process.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

const LIMIT = { timeout: 900_000, skip: MACHINES_FULL ? false : "takes four minutes: npm run test:machines" };
const SIMULATED = 200;
const REAL = 3;
const ALL = SIMULATED + REAL;
/** Simulated robots of the first wave, beside the real ones. */
const CANARIES = 17;
const RETURN_MS_MAX = 90_000;
const GOOD = "0.2.0";
/** A tick of the launcher is 5 s as in production, so a new version has 60 s until its first report. */
const env = { ROAMFLEET_AGENT_TICK_SECONDS: "5" };

const own = new AsyncDisposableStack();
let versions: AgentVersions;
let agents: LaunchedAgent[];
let api: Client;
let fleet_id: string;

const robots = async () => (await Array.fromAsync(api.pages("listRobots", { query: { limit: 500 } }))).flatMap(({ items }) => items);

/** Number of online robots by the version of their agent. */
async function census(): Promise<Record<string, number>> {
  const online = (await robots()).filter(({ status }) => status === "online");
  return Object.fromEntries(
    Map.groupBy(online, ({ agent_version }) => agent_version ?? "")
      .entries()
      .map(([key, { length }]) => [key, length]),
  );
}

before(async () => {
  if (!MACHINES_FULL) return;
  versions = own.use(await AgentVersions.build());
  const server = own.use(await ServerProcess.start());
  ({ api } = await server.org("rollout"));
  const site_id = (await api.createSite({ body: { name: "site" } })).data.id;
  fleet_id = (await api.createFleet({ body: { name: "fleet", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: ALL } })).data;
  own.use(
    new SwarmProcess({ url: server.url, key: key ?? "", robots: SIMULATED, args: ["--real-time", "--share-downloads", "--name", "sim"] }),
  );
  agents = Array.from({ length: REAL }, (_, i) =>
    own.use(new LaunchedAgent({ url: server.url, key: key ?? "", name: `real-${i}`, versions, env })),
  );
  const all = await until(
    "all robots to be online",
    async () => {
      const found = await robots();
      return found.length === ALL && found.every(({ status }) => status === "online") && found;
    },
    { deadline_ms: 240_000 },
  );
  const simulated = all.filter(({ name }) => name.startsWith("sim")).slice(0, CANARIES);
  const canaries = [...simulated, ...all.filter(({ name }) => name.startsWith("real"))].map(({ id }) => id);
  await api.bulkUpdateRobots({ body: { robot_ids: canaries, labels: { set: { canary: "yes" } } }, idempotency_key: randomUUID() });
}, LIMIT);
after(() => own[Symbol.asyncDispose](), LIMIT);

const rollout: Rollout = {
  waves: [{ labels: { canary: "yes" } }, { percent: 50 }],
  failure_threshold: { percent: 10, min_decided: 10 },
  on_failure: "stop",
  verify_seconds: 2,
};

async function deploy(version: string, simulate?: string, fault?: Fault): Promise<string> {
  const manifest = { version, arch: ARCH, ...(simulate === undefined ? {} : { simulate }) };
  const release = await pushBundle(api, `agent-${version}`, versions.tarball(version, fault), { kind: "agent", manifest });
  return (await api.createDeployment({ body: { release, fleet_id, rollout }, idempotency_key: randomUUID() })).data.id;
}

const ended = (id: string): Promise<Deployment> =>
  until(
    `deployment ${id} to end`,
    async () => {
      const { data } = await api.getDeployment({ params: { id } });
      return isTerminal(data.status) && data;
    },
    { deadline_ms: 240_000, detail: () => agents.map(({ output }) => output.slice(-2_000)).join("\n—\n") },
  );

/**
 * Deploys a version with a fault. Asserts that only the first wave receives it, and that every robot automatically returns to the earlier
 * version.
 */
async function deployBad(
  t: TestContext,
  version: string,
  simulate: "crash_loop" | "no_report",
  fault: Fault,
  reason: string,
): Promise<void> {
  const began = performance.now();
  const id = await deploy(version, simulate, fault);
  const { counts, status } = await ended(id);
  await until("all robots to run the earlier version", async () => (await census())[GOOD] === ALL, { deadline_ms: 120_000 });
  const took_ms = Math.round(performance.now() - began);
  t.diagnostic(`${version}: ${status} with ${JSON.stringify(counts)}; all robots run ${GOOD} after ${took_ms} ms`);
  assert.ok(took_ms < RETURN_MS_MAX, `${took_ms} ms`);
  assert.deepEqual([counts.applied, counts.rolled_back, counts.cancelled], [0, CANARIES + REAL, SIMULATED - CANARIES]);
  for (const agent of agents) {
    await agent.runs(GOOD);
    assert.equal(agent.current, GOOD);
  }
  const targets = (await api.listDeploymentTargets({ params: { id }, query: { limit: 500 } })).items;
  const reasons = new Set(targets.filter((target) => target.status === "rolled_back").map((target) => target.reason));
  assert.deepEqual([...reasons], [reason]);
}

test("200 simulated robots and 3 real agents are upgraded in waves", LIMIT, async (t) => {
  const began = performance.now();
  const { status, counts } = await ended(await deploy(GOOD));
  assert.deepEqual([status, counts.applied], ["applied", ALL]);
  await until("all robots to run the version", async () => (await census())[GOOD] === ALL);
  t.diagnostic(`${ALL} robots run ${GOOD} after ${Math.round(performance.now() - began)} ms`);
  for (const agent of agents) await agent.runs(GOOD);
  assert.notEqual(GOOD, VERSION);
});

test("the failure threshold stops an agent version that crashes at start, and all robots revert within 90 s", LIMIT, (t) =>
  deployBad(t, "0.3.0", "crash_loop", EXITS, "crash_loop"),
);

test("the failure threshold stops an agent version that cannot report, and all robots revert within 90 s", LIMIT, (t) =>
  deployBad(t, "0.4.0", "no_report", { before: "export ROAMFLEET_SERVER=http://127.0.0.1:9" }, "health_check_failed"),
);

test("the failure threshold stops an agent version that hangs at its start, and all robots revert within 90 s", LIMIT, (t) =>
  deployBad(t, "0.5.0", "no_report", { program: "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);" }, "health_check_failed"),
);

test(
  "real robots that lose power during the upgrade of their fleet continue with one agent each, and the rollout ends",
  LIMIT,
  async (t) => {
    const next = "0.6.0";
    const id = await deploy(next);
    const moments = [
      ({ root }: LaunchedAgent) => existsSync(path.join(root, "next")) || existsSync(path.join(root, "trial.1")),
      ({ root }: LaunchedAgent) => existsSync(path.join(root, "trial.1")),
      (agent: LaunchedAgent) => agent.agents().some(({ version }) => version === next),
    ];
    await Promise.all(
      agents.map(async (agent, i) => {
        await until(`moment ${i} of the upgrade`, () => moments[i]?.(agent), {
          deadline_ms: 120_000,
          detail: () => agent.output.slice(-2_000),
        });
        await agent.cutPower();
        agent.start();
      }),
    );
    const { status, counts } = await ended(id);
    t.diagnostic(`${status} with ${JSON.stringify(counts)}`);
    assert.equal(status, counts.applied === ALL ? "applied" : "failed");
    await until("all robots to be back", async () => Object.values(await census()).reduce((sum, count) => sum + count, 0) === ALL);
    const targets = (await api.listDeploymentTargets({ params: { id }, query: { limit: 500 } })).items;
    const real = new Map((await robots()).map((robot) => [robot.id, robot.name]));
    for (const [i, agent] of agents.entries()) {
      const target = targets.find(({ robot_id }) => real.get(robot_id ?? "") === `real-${i}`);
      await agent.runs(target?.status === "applied" ? next : GOOD);
    }
  },
);
