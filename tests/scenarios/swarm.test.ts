import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import type { Client } from "@roamfleet/sdk";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SwarmProcess } from "../processes/swarm-process.ts";

const LIMIT = { timeout: 300_000 };
const ROBOTS = 40;
const FAIL = 4;

let server: ServerProcess;
let api: Client;
let site_id = "";
let state = "";

before(async () => {
  state = mkdtempSync(path.join(tmpdir(), "roamfleet-swarm-state-"));
  server = await ServerProcess.start({ args: ["--limit", "token_requests_per_minute=100000", "--limit", "token_burst=100000"] });
  ({ api } = await server.org("Swarm"));
  site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
}, LIMIT);

after(async () => {
  await server?.[Symbol.asyncDispose]();
  rmSync(state, { recursive: true, force: true });
}, LIMIT);

async function fleetOf(name: string): Promise<{ fleet_id: string; key: string }> {
  const fleet_id = (await api.createFleet({ body: { name, site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: ROBOTS } })).data;
  return { fleet_id, key: key ?? "" };
}

const online = (fleet_id: string, count: number): Promise<unknown> =>
  until(`${count} robots to be online`, async () => (await api.getFleet({ params: { id: fleet_id } })).data.online_count === count);

async function deploy(tag: string, fleet_id: string): Promise<string> {
  const body = { release: tag, fleet_id, rollout: { verify_seconds: 1 } };
  return (await api.createDeployment({ body, idempotency_key: randomUUID() })).data.id;
}

/** Waits long enough for robots that have to reconnect. */
async function ended(id: string) {
  const look = async () => {
    const { data } = await api.getDeployment({ params: { id } });
    return isTerminal(data.status) && data.counts;
  };
  return until(`deployment ${id} to end`, look, { deadline_ms: ROBOT_BACK_MS });
}

test("the configured number of simulated robots fails, and all robots keep their identity over a restart", LIMIT, async () => {
  const { fleet_id, key } = await fleetOf("Carts");
  const args = ["--seed", "7", "--fail", String(FAIL), "--state", state, "--latency", "200", "--label", "zone=a"];
  {
    await using swarm = new SwarmProcess({ url: server.url, key, robots: ROBOTS, args });
    await online(fleet_id, ROBOTS);
    const { items } = await api.listRobots({ query: { fleet_id } });
    const by_id = items.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    assert.deepEqual(
      by_id.map(({ name }) => name),
      Array.from({ length: ROBOTS }, (_, i) => `sim-7-${String(i + 1).padStart(2, "0")}`),
      "ids have the order of enrollment",
    );
    assert.deepEqual(by_id[0]?.labels, { zone: "a" });
    await pushBundle(api, "one", await appBundle());
    await pushBundle(api, "two", await appBundle());
    const first = await ended(await deploy("one", fleet_id));
    assert.deepEqual([first.applied, first.rolled_back], [ROBOTS, 0], "the first release is never failed");
    const id = await deploy("two", fleet_id);
    await until("robots to be updating", async () => {
      const { counts } = (await api.getDeployment({ params: { id } })).data;
      // A late poll may find that the first robots have already finished.
      return counts.active + counts.applied + counts.rolled_back > 0;
    });
    await server.program.kill();
    await server.restart();
    const second = await ended(id);
    assert.deepEqual([second.applied, second.rolled_back], [ROBOTS - FAIL, FAIL]);
    const { items: targets } = await api.listDeploymentTargets({ params: { id }, query: { status: "rolled_back" } });
    assert.deepEqual([...new Set(targets.map(({ reason }) => reason))], ["health_check_failed"]);
    const failed = by_id.flatMap((robot, i) => (targets.some(({ robot_id }) => robot_id === robot.id) ? [i + 1] : []));
    assert.deepEqual(failed, [6, 16, 26, 36], "spread evenly over the order of enrollment");
    assert.equal(await swarm.interrupt(), 0);
    await online(fleet_id, 0);
  }
  // Start without the key, because the robots have stored their identity and releases.
  await using swarm = new SwarmProcess({ url: server.url, robots: ROBOTS, args });
  await online(fleet_id, ROBOTS);
  const { items } = await api.listRobots({ query: { fleet_id } });
  assert.equal(items.length, ROBOTS);
  assert.equal(items.filter(({ current_release }) => current_release?.tag === "two").length, ROBOTS - FAIL);
  await pushBundle(api, "three", await appBundle());
  const third = await ended(await deploy("three", fleet_id));
  assert.deepEqual([third.applied, third.rolled_back], [ROBOTS - FAIL, FAIL], "the same robots fail again");
  assert.equal(await swarm.interrupt(), 0);
});

test("robots that repeatedly lose their links still install a release, each with its own signed request", LIMIT, async () => {
  const { fleet_id, key } = await fleetOf("Flapping");
  await using swarm = new SwarmProcess({ url: server.url, key, robots: ROBOTS, args: ["--seed", "8", "--flap", "2", "--latency", "500"] });
  await swarm.program.until(
    "all robots to be enrolled",
    async () => (await api.listRobots({ query: { fleet_id } })).items.length === ROBOTS,
  );
  {
    await using twin = new SwarmProcess({ url: server.url, key, robots: ROBOTS, args: ["--seed", "8"] });
    const ending = await twin.program.ended;
    assert.equal(ending.code, 6, "the same robots twice would be taken for stolen identities");
    assert.match(twin.program.output, /already running[^]*another --seed/);
  }
  await pushBundle(api, "flapping", await appBundle());
  const counts = await ended(await deploy("flapping", fleet_id));
  assert.equal(counts.applied, ROBOTS);
  const robots = (await api.listRobots({ query: { fleet_id } })).items;
  const timelines = await Promise.all(robots.map(({ id }) => api.listRobotTimeline({ params: { id } })));
  assert.ok(
    timelines.some(({ items }) => items.some(({ kind }) => kind === "robot.disconnected")),
    "links were lost",
  );
});

test("roamfleet swarm exits with a message for an unknown or exhausted key or an invalid flag", LIMIT, async () => {
  const { key } = await fleetOf("Small");
  for (const [options, code, word] of [
    [{ url: server.url, key: `rf_enroll_${"0".repeat(64)}`, robots: 2 }, 4, /the enrollment key is not known/],
    [{ url: server.url, key, robots: ROBOTS + 1 }, 4, /exhausted[^]*--max-uses 0/],
    [{ url: server.url, robots: 2 }, 2, /--key KEY/],
    [{ url: server.url, key, robots: 0 }, 2, /--robots takes a whole number from 1/],
  ] as const) {
    await using swarm = new SwarmProcess(options);
    const ending = await swarm.program.ended;
    assert.equal(ending.code, code, swarm.program.output);
    assert.match(swarm.program.output, word);
  }
});
