import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { AgentRefused, AgentUnreachable, askAgent } from "../../packages/agent/src/local/client.ts";
import type { Data, Ledger } from "./ledger.ts";
import type { Scenario } from "./scenario.ts";

const CANARY = { labels: { crash: "canary" }, soak_seconds: 1, gate: "manual" };
const ANY_FAILURE = { count: 0 };
const OWNER = "docking";
const LOCK_TTL_SECONDS = 3_600;

interface Target extends Data {
  robot_id: string;
  status: string;
  waiting_for: string | null;
  reason: string | null;
}

/** A new fleet for one round, which the robot joins, and an enrollment key for it. */
interface Yard {
  site_id: string;
  fleet_id: string;
  key: string;
}

/** Deploys in waves to a fleet of two robots: the first is running, and the second never connects, which keeps the deployments open. */
export async function fleetRound(scenario: Scenario): Promise<void> {
  const { ledger, robot_id } = scenario;
  const old = await scenario.runs();
  const wanted = old === "one" ? "two" : "one";
  const home = String((await ledger.get(`/api/robots/${robot_id}`))["fleet_id"]);
  const yard = await openYard(ledger);
  await ledger.patch(`/api/robots/${robot_id}`, { fleet_id: yard.fleet_id, labels: CANARY.labels });
  await deployInWaves(scenario, yard, wanted);
  await stopAtThreshold(scenario, yard, wanted);
  await rollBackRunning(scenario, yard, old, wanted);
  await follows(scenario, yard, home, old, wanted);
  await secretConfigRound(scenario, yard);
  await deployConfigInWaves(scenario, yard);
  await ledger.patch(`/api/robots/${robot_id}`, { fleet_id: home, labels: {} });
  await ledger.remove(`/api/fleets/${yard.fleet_id}`);
  await ledger.remove(`/api/sites/${yard.site_id}`);
}

async function openYard(ledger: Ledger): Promise<Yard> {
  const name = randomUUID().slice(0, 8);
  const site = await ledger.post("/api/sites", { name: `Waves ${name}` });
  const fleet = await ledger.post("/api/fleets", { name: `Waves ${name}`, site_id: site.id });
  for (;;) {
    const key = await ledger.post("/api/enrollment-keys", { site_id: site.id, fleet_id: fleet.id });
    // Deleting the site also deletes the key, so the ledger must not expect it.
    ledger.forget(key.id);
    // The server returns a key only once. If that response was lost, the loop creates another key.
    if (typeof key["key"] === "string") return { site_id: site.id, fleet_id: fleet.id, key: key["key"] };
  }
}

/** Enrolls a robot that never connects. Returns its id. */
async function absentRobot(ledger: Ledger, { key }: Yard): Promise<string> {
  const answer = await ledger.send("POST", "/agent/enroll", { key, public_key: randomBytes(32).toString("base64") });
  assert.ok(answer.status === 201 || answer.status === 200, `${answer.status} ${answer.text}`);
  return (JSON.parse(answer.text) as { data: { robot_id: string } }).data.robot_id;
}

async function targetOf(ledger: Ledger, id: string, robot_id: string, path = "/api/deployments"): Promise<Target | undefined> {
  const { text } = await ledger.send("GET", `${path}/${id}/targets?robot_id=${robot_id}`);
  return (JSON.parse(text) as { items: Target[] }).items[0];
}

/** Tests a deployment that is paused, resumed, soaked and promoted manually. Then removes the robot of the last wave. */
async function deployInWaves(scenario: Scenario, yard: Yard, wanted: string): Promise<void> {
  const { ledger } = scenario;
  const absent = await absentRobot(ledger, yard);
  const rollout = { waves: [CANARY], verify_seconds: 0, max_parallel: 1 };
  const { id } = await ledger.post("/api/deployments", { release: wanted, fleet_id: yard.fleet_id, rollout });
  await ledger.post(`/api/deployments/${id}/pause`);
  await ledger.post(`/api/deployments/${id}/resume`);
  const waitsFor = (what: string) =>
    scenario.waits(`the last wave to wait for ${what}`, async () => (await targetOf(ledger, id, absent))?.waiting_for === what);
  await waitsFor("gate");
  await ledger.post(`/api/deployments/${id}/promote`);
  await waitsFor("robot_online");
  await ledger.remove(`/api/robots/${absent}`);
  assert.equal(await scenario.end(`/api/deployments/${id}`), "applied");
  assert.equal(await scenario.runs(), wanted);
}

/**
 * Tests that a failing release stops before the next wave, then retries the failed robot. Then does the same with a selection and
 * on_failure "rollback".
 */
async function stopAtThreshold(scenario: Scenario, yard: Yard, runs: string): Promise<void> {
  const { ledger } = scenario;
  const absent = await absentRobot(ledger, yard);
  const rollout = { waves: [{ labels: CANARY.labels }], verify_seconds: 0, failure_threshold: ANY_FAILURE };
  const { id } = await ledger.post("/api/deployments", { release: "bad", fleet_id: yard.fleet_id, rollout });
  // Wait until the target of each updated robot has ended. In this test that is one robot, which rolls back.
  await scenario.end(`/api/deployments/${id}`);
  const stopped = [await ledger.get(`/api/deployments/${id}`), await targetOf(ledger, id, absent)];
  assert.deepEqual(
    stopped.map((one) => `${String(one?.["status"])} ${String(one?.["reason"])}`),
    ["rolled_back threshold_exceeded", "cancelled threshold_exceeded"],
  );
  assert.equal(await scenario.runs(), runs);
  const again = await ledger.post(`/api/deployments/${id}/retry`);
  await scenario.end(`/api/deployments/${again.id}`);
  const back = await ledger.post("/api/deployments", {
    release: "bad",
    target_selector: { robot_ids: [scenario.robot_id, absent] },
    rollout: { ...rollout, on_failure: "rollback" },
  });
  await scenario.end(`/api/deployments/${back.id}`);
  assert.equal(await scenario.runs(), runs);
  await ledger.remove(`/api/robots/${absent}`);
}

/** Rolls back two deployments: one that is applied on one robot and queued for another, and one that is paused. */
async function rollBackRunning(scenario: Scenario, yard: Yard, release: string, runs: string): Promise<void> {
  const { ledger, robot_id } = scenario;
  const absent = await absentRobot(ledger, yard);
  const make = async (): Promise<string> =>
    (await ledger.post("/api/deployments", { release, fleet_id: yard.fleet_id, rollout: { verify_seconds: 0 } })).id;
  const first = await make();
  await scenario.waits("the robot to apply it", async () => (await targetOf(ledger, first, robot_id))?.status === "applied");
  await ledger.post(`/api/deployments/${first}/rollback`);
  assert.equal(await scenario.end(`/api/deployments/${first}`), "rolled_back");
  assert.equal(await scenario.runs(), runs);
  const second = await make();
  await ledger.post(`/api/deployments/${second}/pause`);
  await ledger.post(`/api/deployments/${second}/cancel`, { mode: "rollback" });
  await scenario.end(`/api/deployments/${second}`);
  assert.equal(await scenario.runs(), runs);
  await ledger.remove(`/api/robots/${absent}`);
}

/** Checks that a robot that joins the fleet later gets the fleet's release automatically. */
async function follows(scenario: Scenario, yard: Yard, home: string, other: string, wanted: string): Promise<void> {
  const { ledger, robot_id } = scenario;
  await ledger.patch(`/api/robots/${robot_id}`, { fleet_id: home });
  assert.equal(await scenario.deploy(other), "applied");
  assert.equal(await scenario.runs(), other);
  await ledger.patch(`/api/robots/${robot_id}`, { fleet_id: yard.fleet_id });
  await scenario.waits("the fleet's release to run", async () => (await scenario.runs()) === wanted);
  const { text } = await ledger.send("GET", `/api/deployments?robot_id=${robot_id}&limit=1`);
  const [newest] = (JSON.parse(text) as { items: (Data & { created_by: { type: string } })[] }).items;
  assert.equal(newest?.created_by.type, "system");
  assert.equal(await scenario.end(`/api/deployments/${newest.id}`), "applied");
}

/** Sets, changes and restores a secret. The robot must then have the first value. */
async function secretConfigRound(scenario: Scenario, yard: Yard): Promise<void> {
  const { ledger, robot_id } = scenario;
  const [first, second] = [randomUUID(), randomUUID()];
  const set = (value: string): Promise<Data> =>
    ledger.post("/api/configs", {
      key: "password",
      namespace: "sealed",
      value,
      secret: true,
      scope: "fleet",
      scope_id: yard.fleet_id,
    });
  const { id } = await set(first);
  await set(second);
  await ledger.post(`/api/configs/${id}/rollback`, { version: 1 });
  const deployment = await ledger.post("/api/configs/deployments", { robot_id, namespace: "sealed" });
  assert.equal(await scenario.end(`/api/configs/deployments/${deployment.id}`), "applied");
  const file = path.join(scenario.robot().state, "configs", "sealed.json");
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), { password: first });
}

/**
 * Deploys a value to a selection in waves, of which the first has no robots, and changes the value before the second. The robot must get the
 * value of the start. Removes the robot that never connects.
 */
async function deployConfigInWaves(scenario: Scenario, yard: Yard): Promise<void> {
  const { ledger, robot_id } = scenario;
  const absent = await absentRobot(ledger, yard);
  const [address, namespace, first] = ["/api/configs/deployments", "waves", randomUUID()];
  const set = (value: string): Promise<Data> =>
    ledger.post("/api/configs", { key: "speed", namespace, value, scope: "fleet", scope_id: yard.fleet_id });
  await set(first);
  const { id } = await ledger.post(address, {
    target_selector: { robot_ids: [robot_id, absent] },
    namespace,
    rollout: { waves: [{ labels: { crash: "none" }, gate: "manual" }] },
  });
  await scenario.waits("the second wave to wait for promotion", async () => {
    return (await targetOf(ledger, id, robot_id, address))?.waiting_for === "gate";
  });
  await set(randomUUID());
  await ledger.post(`${address}/${id}/promote`);
  await ledger.remove(`/api/robots/${absent}`);
  assert.equal(await scenario.end(`${address}/${id}`), "applied");
  const file = readFileSync(path.join(scenario.robot().state, "configs", `${namespace}.json`), "utf8");
  assert.deepEqual(JSON.parse(file), { speed: first });
}

/** Sends a request to the agent, and retries during crashes and changes. */
async function askRobot(scenario: Scenario, method: string, address: string, body?: unknown): Promise<void> {
  await until(
    `the agent to answer ${method} ${address}`,
    () =>
      askAgent(path.join(scenario.robot().state, "run", "agent.sock"), method, address, body).then(
        () => true,
        (error: unknown) => {
          if (error instanceof AgentUnreachable || (error instanceof AgentRefused && error.code === "update_in_progress")) return false;
          throw error;
        },
      ),
    { progress: scenario.ledger.crashes },
  );
}

/** Checks that an update waits while the robot's software has the update lock, even if a process crashes during the wait. */
export async function updateLockRound(scenario: Scenario): Promise<void> {
  const { ledger, robot_id } = scenario;
  const old = await scenario.runs();
  const wanted = old === "one" ? "two" : "one";
  await askRobot(scenario, "PUT", "/v1/lock", { owner: OWNER, ttl_seconds: LOCK_TTL_SECONDS });
  const { id } = await ledger.post("/api/deployments", { release: wanted, robot_id, rollout: { verify_seconds: 0 } });
  await scenario.waits("the update to be held back", async () => {
    const target = await targetOf(ledger, id, robot_id);
    return target?.status === "staged" && target.waiting_for === "robot";
  });
  assert.equal(await scenario.runs(), old);
  await askRobot(scenario, "DELETE", `/v1/lock?owner=${OWNER}`);
  assert.equal(await scenario.end(`/api/deployments/${id}`), "applied");
  assert.equal(await scenario.runs(), wanted);
}
