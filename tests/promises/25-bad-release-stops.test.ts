import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import type { Deployment, DeploymentTarget } from "@roamfleet/protocol/routes";
import type { Client } from "@roamfleet/sdk";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SwarmProcess } from "../processes/swarm-process.ts";

const LIMIT = { timeout: promiseSize({ test: 480_000, full: 1_800_000 }) };
const ROBOTS = promiseSize({ test: 100, full: 1_000 });
/** The first wave has ten robots in either size of the test. */
const FIRST_WAVE_PERCENT = promiseSize({ test: 10, full: 1 });
const SECOND_WAVE_PERCENT = promiseSize({ test: 50, full: 10 });
const FEW = (ROBOTS * 5) / 100;
const MANY = (ROBOTS * 15) / 100;
const LATENCY_MS = 200;
const ROLLOUT = {
  waves: [{ percent: FIRST_WAVE_PERCENT }, { percent: SECOND_WAVE_PERCENT }],
  failure_threshold: { percent: 10, min_decided: 10 },
  verify_seconds: 0,
};

interface Fleet {
  api: Client;
  id: string;
  swarm: SwarmProcess;
}

async function startFleet(server: ServerProcess, api: Client, site_id: string, name: string, fail: number): Promise<Fleet> {
  const { id } = (await api.createFleet({ body: { name, site_id } })).data;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id: id, max_uses: ROBOTS } })).data;
  const args = ["--seed", "7", "--fail", String(fail), "--latency", String(LATENCY_MS)];
  const swarm = new SwarmProcess({ url: server.url, key: key ?? "", robots: ROBOTS, args });
  return { api, id, swarm };
}

const read = async ({ api }: Fleet, id: string): Promise<Deployment> => (await api.getDeployment({ params: { id } })).data;
/** Returns the deployment; undefined while the server is down. */
const glance = (fleet: Fleet, id: string): Promise<Deployment | undefined> => read(fleet, id).catch(() => undefined);
const decided = ({ counts }: Deployment): number => counts.applied + counts.failed + counts.rolled_back;

async function deploy({ api, id: fleet_id }: Fleet, release: string, rollout = {}): Promise<string> {
  return (await api.createDeployment({ body: { release, fleet_id, rollout }, idempotency_key: randomUUID() })).data.id;
}

function ended(fleet: Fleet, id: string): Promise<Deployment> {
  let moved = 0;
  return until(
    `deployment ${id} to end`,
    async () => {
      const seen = await glance(fleet, id);
      if (seen === undefined) return undefined;
      moved = decided(seen) * ROBOTS * 10 + (await online(fleet));
      return isTerminal(seen.status) && seen;
    },
    { progress: () => moved },
  );
}

/** Returns the number of connected robots. After a kill, robots reconnect gradually. Robots that were refused may take a minute. */
const online = async ({ api, id }: Fleet): Promise<number> =>
  (await api.getFleet({ params: { id } }).catch(() => undefined))?.data.online_count ?? 0;

/** Kills and restarts the server three times, each time when a given number of robots of both deployments have finished. */
async function killThrice(server: ServerProcess, deployments: readonly [Fleet, string][], at: readonly number[]): Promise<number> {
  let kills = 0;
  for (const count of at) {
    let [done, back] = [0, 0];
    await until(
      `${count} robots to be done`,
      async () => {
        const seen = await Promise.all(deployments.map(([fleet, id]) => glance(fleet, id)));
        done = seen.reduce((sum, one) => sum + (one === undefined ? 0 : decided(one)), 0);
        back = (await Promise.all(deployments.map(([fleet]) => online(fleet)))).reduce((sum, one) => sum + one, 0);
        return done >= count;
      },
      { progress: () => done * ROBOTS * 10 + back },
    );
    const open = (await Promise.all(deployments.map(([fleet, id]) => read(fleet, id)))).some(({ status }) => !isTerminal(status));
    assert.ok(open, "the kill came too late");
    await server.program.kill();
    await server.restart();
    kills += 1;
  }
  return kills;
}

async function targetsOf({ api }: Fleet, id: string): Promise<DeploymentTarget[]> {
  const { items } = await api.listDeploymentTargets({ params: { id } });
  assert.equal(items.length, ROBOTS);
  return items;
}

/** Checks that the release is applied on all robots except those configured to fail, which run their previous release. */
function checkApplied({ status, counts }: Deployment): void {
  assert.deepEqual([status, counts.applied, counts.rolled_back], ["applied", ROBOTS - FEW, FEW]);
  assert.equal(counts.failed + counts.cancelled, 0);
}

/**
 * Checks that the rollout stopped itself. Returns the wave in which it stopped, and the number of robots in later waves that it never
 * reached.
 */
async function checkStopped(
  fleet: Fleet,
  { id, status, counts }: Deployment,
  before: string,
): Promise<{ wave: number; untouched: number }> {
  assert.equal(status, "failed");
  const targets = await targetsOf(fleet, id);
  const wave = Math.max(...targets.filter(({ attempt }) => attempt > 0).map((target) => target.wave));
  const later = targets.filter((target) => target.wave > wave);
  assert.ok(later.length > 0, "it stopped before the last wave");
  assert.deepEqual([...new Set(later.map((target) => `${target.status} ${target.reason}`))], ["cancelled threshold_exceeded"]);
  const { items: events } = await fleet.api.listDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } });
  const left_alone = new Set(later.map(({ robot_id }) => robot_id));
  assert.deepEqual(
    events.filter(({ robot_id, target_status }) => left_alone.has(robot_id ?? "") && target_status !== "cancelled"),
    [],
    "a robot of a later wave received it",
  );
  const { items: robots } = await fleet.api.listRobots({ query: { fleet_id: fleet.id } });
  for (const robot of robots) if (left_alone.has(robot.id)) assert.equal(robot.current_release?.tag, before);
  assert.equal(counts.rolled_back + counts.applied + counts.failed + counts.cancelled, ROBOTS);
  return { wave, untouched: later.length };
}

test("a rollout stops automatically when too many robots fail, and does not reach later waves", LIMIT, async (t) => {
  await using server = await ServerProcess.start({
    args: ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
  });
  const { api } = await server.org("Rollouts");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  await using swarms = new AsyncDisposableStack();
  const few = await startFleet(server, api, site_id, "few fail", FEW);
  swarms.use(few.swarm);
  const many = await startFleet(server, api, site_id, "many fail", MANY);
  swarms.use(many.swarm);
  for (const fleet of [few, many]) {
    let count = 0;
    await until("all robots to be online", async () => (count = await online(fleet)) === ROBOTS, { progress: () => count });
  }
  for (const tag of ["one", "two", "three"]) await pushBundle(api, tag, await appBundle());
  const firsts = [await deploy(few, "one"), await deploy(many, "one")] as const;
  for (const first of [await ended(few, firsts[0]), await ended(many, firsts[1])])
    assert.deepEqual([first.status, first.counts.applied], ["applied", ROBOTS], "no robot fails the first release");

  const [good, bad] = [await deploy(few, "two", ROLLOUT), await deploy(many, "two", ROLLOUT)];
  checkApplied(await ended(few, good));
  const calm = await checkStopped(many, await ended(many, bad), "one");

  // Repeat this with a server that is killed during the rollout. Robots that rolled back run "one" at this point, and the others "two".
  const [killed_good, killed_bad] = [await deploy(few, "three", ROLLOUT), await deploy(many, "three", ROLLOUT)];
  const second_wave = (ROBOTS * SECOND_WAVE_PERCENT) / 100;
  const kills = await killThrice(
    server,
    [
      [few, killed_good],
      [many, killed_bad],
    ],
    [5, second_wave / 2, second_wave],
  );
  checkApplied(await ended(few, killed_good));
  const killed = await checkStopped(many, await ended(many, killed_bad), "one");
  assert.deepEqual(killed, calm, "stopped in the same wave");
  provePromise(
    t,
    25,
    `${ROBOTS} robots, waves of ${FIRST_WAVE_PERCENT} %, ${SECOND_WAVE_PERCENT} % and the rest, threshold 10 %: ${FEW} that fail end it applied with ` +
      `${ROBOTS - FEW} applied and ${FEW} rolled back; ${MANY} stop it in wave ${calm.wave + 1}, ${calm.untouched} robots never heard of it; the same with the server killed ${kills} times`,
  );
});
