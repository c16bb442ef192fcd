import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { ApiError, type Client } from "@roamfleet/sdk";
import { SimulatedRobot } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };
const PASSWORD = "open-sesame-41";

const asOperator = async (plane: Harness): Promise<Client> => plane.default_org.client(await plane.default_org.token({ role: "operator" }));

const newKey = async (plane: Harness, api: Client, fleet_id: string, trusted?: boolean) => {
  const { site_id } = (await plane.api.getFleet({ params: { id: fleet_id } })).data;
  return (await api.createEnrollmentKey({ body: { site_id, fleet_id, trusted } })).data;
};

async function robotBy(plane: Harness, key: string | null, options: { id?: string } = {}): Promise<SimulatedRobot> {
  const robot = await SimulatedRobot.enroll(plane.swarm, { key: key ?? "", name: `robot-${randomUUID()}`, ...options });
  await robot.connect();
  await plane.settle();
  return robot;
}

const approvalOf = async (plane: Harness, id: string) => (await plane.api.getRobot({ params: { id } })).data.approval;
const setSecret = (plane: Harness) => plane.api.setConfig({ body: { key: "password", value: PASSWORD, secret: true, namespace: "cloud" } });
const configTarget = async (plane: Harness, id: string) => {
  const [target] = (await plane.api.listConfigDeploymentTargets({ params: { id } })).items;
  return `${target?.status} ${target?.waiting_for}`;
};

test("a robot enrolled with an operator's key gets no secrets before an admin approves it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const operator = await asOperator(plane);
  const robot = await robotBy(plane, (await newKey(plane, operator, await plane.fleet())).key);
  assert.equal(await approvalOf(plane, robot.id), "pending");
  assert.deepEqual(
    (await plane.api.listRobots({ query: { approval: "pending" } })).items.map(({ id }) => id),
    [robot.id],
  );
  await plane.api.setConfig({ body: { key: "speed", value: 1 } });
  const deploy = async () =>
    (await operator.createConfigDeployment({ body: { robot_id: robot.id }, idempotency_key: randomUUID() })).data.id;
  const plain = await deploy();
  await plane.settle();
  assert.equal(await configTarget(plane, plain), "applied null");
  await setSecret(plane);
  const waits = await deploy();
  await plane.settle();
  assert.equal(await configTarget(plane, waits), "queued approval");
  assert.equal(robot.config("cloud"), undefined);
  const refused = await operator.approveRobot({ params: { id: robot.id } }).catch((error: unknown) => error);
  assert.ok(refused instanceof ApiError && refused.status === 403);
  await plane.api.approveRobot({ params: { id: robot.id } });
  await plane.settle();
  assert.equal(await configTarget(plane, waits), "applied null");
  assert.deepEqual(JSON.parse(robot.config("cloud") ?? ""), { password: PASSWORD });
  assert.equal(await approvalOf(plane, robot.id), "approved");
  await checkEngine(plane, { ended: true });
});

test("a config deployment that awaits approval supersedes older ones only when it is dispatched", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await robotBy(plane, (await newKey(plane, await asOperator(plane), await plane.fleet())).key);
  await robot.disconnect();
  await plane.settle();
  await setSecret(plane);
  const [older, newer] = [await plane.deployConfig({ robot_id: robot.id }), await plane.deployConfig({ robot_id: robot.id })];
  await robot.connect();
  await plane.settle();
  assert.deepEqual([await configTarget(plane, newer.id), await configTarget(plane, older.id)], ["queued approval", "queued approval"]);
  await plane.api.approveRobot({ params: { id: robot.id } });
  await plane.settle();
  assert.deepEqual([await configTarget(plane, newer.id), await configTarget(plane, older.id)], ["applied null", "cancelled null"]);
  await checkEngine(plane, { ended: true });
});

test("an enrollment key is trusted only while its creator is an admin of the whole org", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const operator = await asOperator(plane);
  const of_fleet = plane.default_org.client(await plane.default_org.token({ role: "admin", scopes: [{ fleet_id }] }));
  for (const api of [operator, of_fleet]) {
    const refused = await newKey(plane, api, fleet_id, true).catch((error: unknown) => error);
    assert.ok(refused instanceof ApiError && refused.status === 403 && /field trusted/.test(refused.message));
    assert.equal((await newKey(plane, api, fleet_id)).trusted, false);
  }
  const by_admin = await newKey(plane, plane.api, fleet_id);
  assert.equal(by_admin.trusted, true);
  assert.equal(await approvalOf(plane, (await robotBy(plane, by_admin.key)).id), "approved");
  assert.equal((await newKey(plane, plane.api, fleet_id, false)).trusted, false);
  const user = (await plane.api.createUser({ body: { email: "ada@example.org", name: "Ada", role: "admin" } })).data;
  const made = (await plane.api.createToken({ body: { label: "laptop", role: "admin", user_id: user.id } })).data;
  const by_ada = await newKey(plane, plane.default_org.client(made.token ?? ""), fleet_id);
  await plane.api.updateUser({ params: { id: user.id }, body: { role: "operator" } });
  assert.equal(await approvalOf(plane, (await robotBy(plane, by_ada.key)).id), "pending");
});

test("a robot whose computer was replaced by an operator gets no secrets until an admin approves it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const operator = await asOperator(plane);
  const before = await plane.enrollRobot();
  await setSecret(plane);
  await plane.deployConfig({ robot_id: before.id });
  await plane.settle();
  assert.deepEqual(JSON.parse(before.config("cloud") ?? ""), { password: PASSWORD });
  const { key, trusted } = (await operator.replaceRobot({ params: { id: before.id } })).data;
  assert.equal(trusted, false);
  await before.disconnect();
  const robot = await robotBy(plane, key);
  assert.equal(robot.id, before.id);
  assert.equal(await approvalOf(plane, robot.id), "pending");
  assert.equal(robot.config("cloud"), undefined);
  const response = await robot.get("/agent/configs/cloud");
  assert.equal(response.status, 403);
  assert.ok(!(await response.text()).includes(PASSWORD));
  await plane.api.approveRobot({ params: { id: robot.id } });
  await plane.settle();
  assert.deepEqual(JSON.parse(robot.config("cloud") ?? ""), { password: PASSWORD });
  const by_admin = (await plane.api.replaceRobot({ params: { id: robot.id } })).data;
  assert.equal(by_admin.trusted, true);
});
