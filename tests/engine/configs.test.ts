import assert from "node:assert/strict";
import { test } from "node:test";
import type { HarnessOrg } from "../harness/index.ts";
import { startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

const setValue = (
  api: HarnessOrg["api"],
  key: string,
  value: unknown,
  rest: { namespace?: string; scope?: "org" | "site" | "fleet" | "robot"; scope_id?: string } = {},
) => api.setConfig({ body: { key, value, ...rest } });

/** Returns for each robot of a config deployment whether its config changed. */
async function ends(api: HarnessOrg["api"], id: string): Promise<Map<string | null, unknown>> {
  const { items } = await api.listConfigDeploymentEvents({ params: { id }, query: { include: "targets" } });
  return new Map(items.filter(({ kind }) => kind === "target.applied").map(({ robot_id, data }) => [robot_id, data.changed]));
}

test("a changed config value reaches robots only with a config deployment", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [first, second] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(first && second);
  await setValue(plane.api, "speed", 1);
  await setValue(plane.api, "speed", 2, { scope: "robot", scope_id: second.id });
  await setValue(plane.api, "name", { a: [1, "ü"] }, { scope: "fleet", scope_id: fleet_id });
  await plane.advance({ minutes: 2 });
  assert.deepEqual([first.config(), second.config()], [undefined, undefined]);
  const { id } = await plane.deployConfig({ fleet_id });
  await plane.settle();
  assert.equal((await plane.api.getConfigDeployment({ params: { id } })).data.status, "applied");
  assert.deepEqual(JSON.parse(first.config() ?? ""), { speed: 1, name: { a: [1, "ü"] } });
  assert.deepEqual(JSON.parse(second.config() ?? ""), { speed: 2, name: { a: [1, "ü"] } });
  assert.deepEqual(
    await ends(plane.api, id),
    new Map([
      [first.id, true],
      [second.id, true],
    ]),
  );
  await checkEngine(plane, { ended: true });
});

test("a config deployment reports changed false for a robot that already has the values", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  // Robots that join later are not updated automatically, because this test covers only the robots that exist when the deployment starts.
  await plane.api.updateFleet({ params: { id: fleet_id }, body: { follow: false } });
  const [old] = await plane.enrollRobots(1, { fleet_id });
  await setValue(plane.api, "speed", 1);
  await plane.deployConfig({ fleet_id });
  await plane.settle();
  const [fresh] = await plane.enrollRobots(1, { fleet_id });
  assert.ok(old && fresh);
  const { id } = await plane.deployConfig({ fleet_id });
  await plane.settle();
  assert.deepEqual(
    await ends(plane.api, id),
    new Map([
      [old.id, false],
      [fresh.id, true],
    ]),
  );
  await checkEngine(plane, { ended: true });
});

test("a config deployment without any values ends as applied with reason already_installed", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const { id } = await plane.deployConfig({ robot_id: robot.id });
  await plane.settle();
  const { status, reason } = (await plane.api.getConfigDeployment({ params: { id } })).data;
  assert.deepEqual({ status, reason }, { status: "applied", reason: "already_installed" });
  assert.deepEqual(await ends(plane.api, id), new Map([[robot.id, false]]));
});

test("a config deployment supersedes older ones of the same namespace only", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  await setValue(plane.api, "a", 1, { namespace: "one" });
  await setValue(plane.api, "b", 1, { namespace: "two" });
  const one = await plane.deployConfig({ robot_id: robot.id }, { namespace: "one" });
  const two = await plane.deployConfig({ robot_id: robot.id }, { namespace: "two" });
  await setValue(plane.api, "a", 2, { namespace: "one" });
  const newer = await plane.deployConfig({ robot_id: robot.id }, { namespace: "one" });
  await robot.connect();
  await plane.settle();
  const shown = async (id: string) => {
    const { status, reason } = (await plane.api.getConfigDeployment({ params: { id } })).data;
    return [status, reason];
  };
  assert.deepEqual(await shown(one.id), ["cancelled", "superseded"]);
  assert.deepEqual(await shown(two.id), ["applied", null]);
  assert.deepEqual(await shown(newer.id), ["applied", null]);
  assert.deepEqual(
    [robot.config("one"), robot.config("two")].map((text) => JSON.parse(text ?? "")),
    [{ a: 2 }, { b: 1 }],
  );
  await setValue(plane.api, "a", 3, { namespace: "one" });
  await plane.advance({ minutes: 1 });
  assert.deepEqual(JSON.parse(robot.config("one") ?? ""), { a: 2 });
  await checkEngine(plane, { ended: true });
});

test("a newer deployment of one namespace does not supersede an older deployment of all namespaces", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  await setValue(plane.api, "a", 1, { namespace: "one" });
  await setValue(plane.api, "b", 1, { namespace: "two" });
  const all = await plane.deployConfig({ robot_id: robot.id });
  const newer = await plane.deployConfig({ robot_id: robot.id }, { namespace: "one" });
  await robot.connect();
  await plane.settle();
  for (const { id } of [all, newer]) {
    const { status, reason } = (await plane.api.getConfigDeployment({ params: { id } })).data;
    assert.deepEqual([status, reason], ["applied", null]);
  }
  assert.deepEqual(
    [robot.config("one"), robot.config("two")].map((text) => JSON.parse(text ?? "")),
    [{ a: 1 }, { b: 1 }],
  );
  await checkEngine(plane, { ended: true });
});

test("an older deployment of all namespaces is superseded if newer deployments have delivered each of them", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  await setValue(plane.api, "a", 1, { namespace: "one" });
  const all = await plane.deployConfig({ robot_id: robot.id });
  const newer = await plane.deployConfig({ robot_id: robot.id }, { namespace: "one" });
  await robot.connect();
  await plane.settle();
  const shown = async (id: string) => {
    const { status, reason } = (await plane.api.getConfigDeployment({ params: { id } })).data;
    return [status, reason];
  };
  assert.deepEqual(await shown(all.id), ["cancelled", "superseded"]);
  assert.deepEqual(await shown(newer.id), ["applied", null]);
  await checkEngine(plane, { ended: true });
});

test("reports a manually edited config file as drift until the next deployment restores it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await setValue(plane.api, "speed", 1);
  await plane.deployConfig({ robot_id: robot.id });
  await plane.settle();
  const state = async () => (await plane.api.getRobot({ params: { id: robot.id } })).data.config_state;
  assert.equal(await state(), "in_sync");
  robot.editConfig("default", "{}\n");
  await plane.advance({ minutes: 1 });
  assert.equal(await state(), "drifted");
  assert.equal(robot.config(), "{}\n");
  const { id } = await plane.deployConfig({ robot_id: robot.id });
  await plane.settle();
  assert.equal(await state(), "in_sync");
  assert.deepEqual(JSON.parse(robot.config() ?? ""), { speed: 1 });
  assert.deepEqual(await ends(plane.api, id), new Map([[robot.id, true]]));
  await checkEngine(plane, { ended: true });
});

test("a config deployment does not wait for a release deployment to the same robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: { step_ms: { downloading: 60_000 } } });
  await setValue(plane.api, "speed", 1);
  const release = await plane.release();
  const deployment = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  const config = await plane.deployConfig({ robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.api.getConfigDeployment({ params: { id: config.id } })).data.status, "applied");
  await plane.advance({ minutes: 2 });
  assert.equal((await plane.deployment(deployment.id)).status, "applied");
  await checkEngine(plane, { ended: true });
});
