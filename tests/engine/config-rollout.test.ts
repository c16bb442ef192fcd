import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { ConfigDeployment, ConfigDeploymentPlan, Rollout } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk";
import { SimulatedRobot } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 240_000 };
const AT = "2030-01-01T00:00:00Z";
const at = (id: string) => ({ params: { id } });
const refused = (status: number, message: RegExp) => (error: unknown) =>
  error instanceof ApiError && error.status === status && message.test(error.message);

/** Starts a plane with a fleet of connected robots, in the order of the waves. */
async function start(count: number) {
  const plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const robots = (await plane.enrollRobots(count, { fleet_id })).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return {
    plane,
    fleet_id,
    robots: robots as [SimulatedRobot, SimulatedRobot, ...SimulatedRobot[]],
    set: (key: string, value: unknown, robot?: SimulatedRobot) =>
      plane.api.setConfig({ body: { key, value, ...(robot === undefined ? {} : { scope: "robot" as const, scope_id: robot.id }) } }),
    async rollOut(rollout: Rollout, scheduled_at?: string): Promise<string> {
      const { id } = await plane.deployConfig({ fleet_id }, { rollout, ...(scheduled_at === undefined ? {} : { scheduled_at }) });
      await plane.settle();
      return id;
    },
    [Symbol.asyncDispose]: () => plane[Symbol.asyncDispose](),
  };
}

const deployment = async ({ api }: Harness, id: string): Promise<ConfigDeployment> => (await api.getConfigDeployment(at(id))).data;
const stateOf = async (plane: Harness, id: string): Promise<string> => {
  const { status, reason, wave } = await deployment(plane, id);
  return `${status} ${reason} ${wave}`;
};
const wavesOf = async ({ api }: Harness, id: string): Promise<string[]> =>
  (await api.listConfigDeploymentWaves(at(id))).items.map(({ status, applied, total }) => `${status} ${applied}/${total}`);
const valuesOf = (robot: SimulatedRobot): unknown => JSON.parse(robot.config() ?? "null");

/** Makes the next config deployment fail on robots without a robot's value of `mode`. */
const requireMode = ({ api }: Harness) =>
  api.setConfigSchema({ params: { namespace: "default" }, body: { schema: { required: ["mode"] } } });

test("a config deployment in waves stops before the next wave when a robot fails", TIMEOUT, async () => {
  await using it = await start(3);
  const { plane, robots } = it;
  await requireMode(plane);
  await it.set("speed", 1);
  for (const robot of robots.slice(1)) await it.set("mode", "fast", robot);
  const id = await it.rollOut({ waves: [{ count: 1 }] });
  await plane.advance({ seconds: 10 });
  const { status, reason, counts } = await deployment(plane, id);
  assert.deepEqual([status, reason, counts.failed, counts.cancelled], ["failed", "threshold_exceeded", 1, 2]);
  assert.deepEqual(robots.map(valuesOf), [null, null, null]);
  await checkEngine(plane, { ended: true });
});

test("a config deployment that is paused after a failure continues when it is resumed", TIMEOUT, async () => {
  await using it = await start(3);
  const { plane, robots } = it;
  await requireMode(plane);
  await it.set("speed", 1);
  for (const robot of robots.slice(1)) await it.set("mode", "fast", robot);
  const id = await it.rollOut({ waves: [{ count: 1 }], on_failure: "pause" });
  assert.equal(await stateOf(plane, id), "paused threshold_exceeded 0");
  await plane.restart();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(robots.map(valuesOf), [null, null, null]);
  await plane.api.resumeConfigDeployment(at(id));
  await plane.advance({ minutes: 1 });
  const { status, counts } = await deployment(plane, id);
  assert.deepEqual([status, counts.applied, counts.failed], ["failed", 2, 1]);
  assert.deepEqual(robots.map(valuesOf), [null, { mode: "fast", speed: 1 }, { mode: "fast", speed: 1 }]);
  await checkEngine(plane, { ended: true });
});

test("a value that is set after a config deployment started does not reach its later waves", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, robots } = it;
  await it.set("speed", 1);
  const old = (await it.set("old", true)).data.id;
  const id = await it.rollOut({ waves: [{ count: 1, gate: "manual" }] });
  assert.deepEqual(await wavesOf(plane, id), ["passed 1/1", "gate 0/1"]);
  await it.set("speed", 2);
  await it.set("speed", 3, robots[1]);
  await it.set("added", true);
  await plane.api.deleteConfig(at(old));
  await plane.restart();
  await plane.api.promoteConfigDeployment(at(id));
  await plane.settle();
  assert.deepEqual(robots.map(valuesOf), [
    { speed: 1, old: true },
    { speed: 1, old: true },
  ]);
  assert.equal(await stateOf(plane, id), "applied null 1");
  await it.rollOut({});
  assert.deepEqual(robots.map(valuesOf), [
    { speed: 2, added: true },
    { speed: 3, added: true },
  ]);
  await checkEngine(plane, { ended: true });
});

test("without waves, a robot that connects later gets the values of that time", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, robots } = it;
  await robots[1].disconnect();
  await plane.settle();
  await it.set("speed", 1);
  await it.rollOut({ max_parallel: 1 });
  await it.set("speed", 2);
  await robots[1].connect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(robots.map(valuesOf), [{ speed: 1 }, { speed: 2 }]);
  await checkEngine(plane, { ended: true });
});

test("a config deployment in waves gets the values of its scheduled time", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, robots } = it;
  await it.set("speed", 1);
  const id = await it.rollOut({ waves: [{ count: 1, gate: "manual" }] }, "2030-01-01T00:10:00Z");
  assert.equal((await deployment(plane, id)).scheduled_at, "2030-01-01T00:10:00.000Z");
  assert.equal(await stateOf(plane, id), "scheduled null 0");
  await it.set("speed", 2);
  await plane.advance({ minutes: 11 });
  assert.deepEqual(await wavesOf(plane, id), ["passed 1/1", "gate 0/1"]);
  await it.set("speed", 3);
  await plane.api.promoteConfigDeployment(at(id));
  await plane.settle();
  assert.deepEqual(robots.map(valuesOf), [{ speed: 2 }, { speed: 2 }]);
  await checkEngine(plane, { ended: true });
});

test("an incident of an updated robot pauses a config deployment", TIMEOUT, async () => {
  await using it = await start(3);
  const { plane, robots, fleet_id } = it;
  await plane.api.createAlertRule({
    body: { name: "Robot gone", severity: "warning", condition: { type: "robot_offline" }, for_seconds: 15, fleet_id, force: true },
  });
  await it.set("speed", 1);
  const id = await it.rollOut({ waves: [{ count: 1, soak_seconds: 300, gate_incidents: "warning" }] });
  await robots[1].disconnect();
  await plane.advance({ minutes: 1 });
  assert.equal(await stateOf(plane, id), "in_progress null 0", "an incident of another robot does not concern the wave");
  await robots[0].disconnect();
  await plane.advance({ minutes: 1 });
  assert.equal(await stateOf(plane, id), "paused gate_failed 0");
  const [wave] = (await plane.api.listConfigDeploymentWaves(at(id))).items;
  assert.equal(wave?.gate_checks[0]?.state, "failing");
  for (const robot of robots) await robot.connect();
  await plane.api.resumeConfigDeployment(at(id));
  await plane.advance({ minutes: 10 });
  assert.equal(await stateOf(plane, id), "applied null 1");
  await checkEngine(plane, { ended: true });
});

test("a robot that awaits approval does not delay a wave", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, fleet_id, robots } = it;
  const operator = plane.default_org.client(await plane.default_org.token({ role: "operator" }));
  const { site_id } = (await plane.api.getFleet({ params: { id: fleet_id } })).data;
  const { key } = (await operator.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  const pending = await SimulatedRobot.enroll(plane.swarm, { key: key ?? "", name: "pending" });
  await pending.connect();
  await plane.settle();
  await plane.api.setConfig({ body: { key: "password", value: "open-sesame-41", secret: true } });
  const labels = { first: "yes" };
  for (const robot of [robots[0], pending]) await plane.api.updateRobot({ params: { id: robot.id }, body: { labels } });
  const id = await it.rollOut({ waves: [{ labels }] });
  await plane.advance({ minutes: 1 });
  assert.deepEqual(await wavesOf(plane, id), ["passed 1/2", "passed 1/1"]);
  await plane.api.approveRobot({ params: { id: pending.id } });
  await plane.advance({ minutes: 1 });
  assert.equal(await stateOf(plane, id), "applied null 1");
  await checkEngine(plane, { ended: true });
});

test("a dry run of a config deployment returns its robots and waves, and deploys nothing", TIMEOUT, async () => {
  await using it = await start(3);
  const { plane, fleet_id, robots } = it;
  await robots[2]?.disconnect();
  await plane.settle();
  const body = { fleet_id, namespace: "nav", rollout: { waves: [{ count: 1 }] }, dry_run: true };
  const { data } = (await plane.api.createConfigDeployment({ body, idempotency_key: randomUUID() })) as unknown as {
    data: ConfigDeploymentPlan;
  };
  assert.deepEqual(
    [data.namespace, data.total, data.offline, data.waves, data.robots.map(({ robot_id, wave }) => [robot_id, wave])],
    [
      "nav",
      3,
      1,
      [
        { wave: 0, total: 1, offline: 0 },
        { wave: 1, total: 2, offline: 1 },
      ],
      robots.map(({ id }, i) => [id, Math.min(i, 1)]),
    ],
  );
  assert.deepEqual((await plane.api.listConfigDeployments({})).items, []);
});

test("refuses a config rollout that only a release supports, or that contradicts its target", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, robots, fleet_id } = it;
  const window = { cron: "0 2 * * *", time_zone: "UTC", duration_minutes: 60 };
  await assert.rejects(
    plane.deployConfig({ fleet_id }, { rollout: { window } }),
    refused(400, /^rollout\.window can only be used with a release/),
  );
  await assert.rejects(
    plane.deployConfig({ fleet_id }, { rollout: { on_failure: "rollback" } }),
    refused(400, /^rollout\.on_failure rollback can only be used with a release/),
  );
  await assert.rejects(
    plane.deployConfig({ robot_id: robots[0].id }, { rollout: { waves: [{ count: 1 }] } }),
    refused(400, /^rollout\.waves can only be used with a fleet/),
  );
  const id = await it.rollOut({});
  await assert.rejects(plane.api.pauseConfigDeployment(at(id)), refused(409, /has ended/));
  await assert.rejects(plane.api.resumeConfigDeployment(at(id)), refused(409, /has ended/));
  await assert.rejects(plane.api.promoteConfigDeployment(at(id)), refused(409, /has ended/));
  const release = (await plane.deploy(await plane.release(), { fleet_id })).id;
  await assert.rejects(plane.api.pauseConfigDeployment(at(release)), refused(404, /^config deployment /));
  await assert.rejects(plane.api.pauseDeployment(at(id)), refused(404, /^deployment /));
  await assert.rejects(plane.api.listDeploymentWaves(at(id)), refused(404, /^deployment /));
});

test("a paused config deployment gives no robot its values until it is resumed", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, robots } = it;
  await it.set("speed", 1);
  await robots[1].disconnect();
  await plane.settle();
  const id = await it.rollOut({});
  assert.equal((await plane.api.pauseConfigDeployment(at(id))).data.status, "paused");
  await robots[1].connect();
  await plane.advance({ minutes: 2 });
  assert.deepEqual(robots.map(valuesOf), [{ speed: 1 }, null]);
  await plane.api.resumeConfigDeployment(at(id));
  await plane.advance({ minutes: 1 });
  assert.deepEqual(robots.map(valuesOf), [{ speed: 1 }, { speed: 1 }]);
  assert.equal(await stateOf(plane, id), "applied null 0");
  await checkEngine(plane, { ended: true });
});
