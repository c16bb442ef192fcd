import assert from "node:assert/strict";
import { test } from "node:test";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

const targets = async (plane: Harness, id: string) => (await plane.api.listConfigDeploymentTargets({ params: { id } })).items;
const lastWords = async (plane: Harness, id: string) =>
  (await plane.api.listConfigDeploymentEvents({ params: { id }, query: { include: "targets" } })).items
    .filter(({ kind }) => kind === "target.failed")
    .map(({ message }) => message);

test("a config deployment fails only on robots whose combined values violate the schema", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.default_org.homeFleet();
  const [good, bad] = [await plane.enrollRobot({ fleet_id }), await plane.enrollRobot({ fleet_id })];
  const set = (key: string, value: unknown, scope: object = { scope: "fleet", scope_id: fleet_id }) =>
    plane.api.setConfig({ body: { namespace: "nav", key, value, ...scope } });
  await set("speed", 1);
  const before = await plane.default_org.deployConfig({ fleet_id }, { namespace: "nav" });
  await plane.settle();
  assert.equal((await plane.api.getConfigDeployment({ params: { id: before.id } })).data.status, "applied");

  const schema = { required: ["mode"], if: { properties: { mode: { const: "fast" } } }, else: { properties: { speed: { maximum: 2 } } } };
  await plane.api.setConfigSchema({ params: { namespace: "nav" }, body: { schema } });
  const missing = await plane.default_org.deployConfig({ fleet_id }, { namespace: "nav" });
  await plane.settle();
  assert.deepEqual((await plane.api.getConfigDeployment({ params: { id: missing.id } })).data.status, "failed");
  assert.deepEqual(await lastWords(plane, missing.id), [
    "config failed: the config of namespace nav must have required property 'mode'",
    "config failed: the config of namespace nav must have required property 'mode'",
  ]);
  assert.equal((await plane.api.getRobot({ params: { id: bad.id } })).data.config_state, "in_sync", "it keeps its present config");

  await set("mode", "slow");
  // This value is valid alone, but not in combination with the fleet's mode.
  await set("speed", 5, { scope: "robot", scope_id: bad.id });
  const { id } = await plane.default_org.deployConfig({ fleet_id }, { namespace: "nav" });
  await plane.settle();
  const ended = new Map((await targets(plane, id)).map(({ robot_id, status, reason }) => [robot_id, [status, reason]]));
  assert.deepEqual(ended.get(good.id), ["applied", null]);
  assert.deepEqual(ended.get(bad.id), ["failed", "incompatible"]);
  assert.deepEqual(await lastWords(plane, id), ["config failed: value speed must be <= 2 (schema of namespace nav)"]);
  await checkEngine(plane, { ended: true });
});

test("a config deployment that waits for its robot can be cancelled, but an ended one cannot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  await plane.api.setConfig({ body: { key: "speed", value: 1 } });
  const { id } = await plane.default_org.deployConfig({ robot_id: robot.id });
  await plane.settle();
  assert.deepEqual(
    (await targets(plane, id)).map(({ status, waiting_for }) => [status, waiting_for]),
    [["queued", "robot_online"]],
  );
  assert.equal((await plane.api.cancelConfigDeployment({ params: { id } })).data.status, "cancelled");
  await assert.rejects(plane.api.cancelConfigDeployment({ params: { id } }), { status: 409 });
  await assert.rejects(plane.api.cancelDeployment({ params: { id } }), { status: 404 });
  await assert.rejects(plane.api.listDeploymentTargets({ params: { id } }), { status: 404 });
  await robot.connect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(Object.keys(robot.received.at(-1)?.configs ?? {}), []);
  await checkEngine(plane, { ended: true });
});
