import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { AGENT_APP } from "@roamfleet/protocol";
import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk";
import { rollBack } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };
const KINDS = ["file", "agent"];

const agentRelease = (plane: Harness, version: string, arch: string) =>
  plane.release({ tag: `agent-${version}-${arch}`, kind: "agent", app: AGENT_APP, manifest: { version, arch } });

test("only releases of kind agent use the app of the agent, and they use no other app", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const manifest = { version: "1.2.3", arch: "amd64" };
  const refused = (says: RegExp) => (error: unknown) => error instanceof ApiError && error.status === 400 && says.test(error.message);
  const push = plane.release.bind(plane);
  await assert.rejects(push({ kind: "file", app: AGENT_APP }), refused(/reserved for releases of kind agent, not for file/));
  await assert.rejects(push({ kind: "agent", app: "nav", manifest }), refused(/belong to the app roamfleet-agent, not to nav/));
  for (const wrong of [undefined, {}, { version: "1.2.3" }, { version: "../1", arch: "amd64" }, { version: "1.2.3", arch: 64 }])
    await assert.rejects(
      push({ kind: "agent", ...(wrong === undefined ? {} : { manifest: wrong }) }),
      refused(/needs the version and the architecture of the agent/),
    );
  const { app } = await push({ kind: "agent", manifest });
  assert.equal(app, AGENT_APP, "the app is the default of the kind");
});

test("an agent version is deployed to robots of its architecture, but not to robots that join later", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [one, two] = await plane.enrollRobots(2, { fleet_id, kinds: KINDS });
  const arm = await plane.enrollRobot({ fleet_id, kinds: KINDS, arch: "arm64" });
  await plane.enrollRobot({ fleet_id, kinds: KINDS, arch: "riscv64", online: false });
  assert.ok(one && two);
  const releases = { amd64: await agentRelease(plane, "0.2.0", "amd64"), arm64: await agentRelease(plane, "0.2.0", "arm64") };
  const plan = async (target: { fleet_id: string } | { robot_id: string }) => {
    const body = { release: releases.amd64.id, ...target, dry_run: true };
    return (await plane.api.createDeployment({ body, idempotency_key: randomUUID() })).data as unknown as DeploymentPlan;
  };
  const [of_fleet, of_wrong] = [await plan({ fleet_id }), await plan({ robot_id: arm.id })];
  assert.deepEqual([of_fleet.total, of_fleet.incompatible], [2, 0]);
  assert.deepEqual([of_wrong.total, of_wrong.incompatible], [1, 1]);
  const deployments = [await plane.deploy(releases.amd64, { fleet_id }), await plane.deploy(releases.arm64, { fleet_id })];
  await plane.settle();
  const ended = await Promise.all(deployments.map(({ id }) => plane.deployment(id)));
  assert.deepEqual(
    ended.map(({ status, counts }) => [status, counts.total, counts.applied]),
    [
      ["applied", 2, 2],
      ["applied", 1, 1],
    ],
  );
  assert.deepEqual(
    [one, two, arm].map((robot) => robot.runs(AGENT_APP)),
    ["agent-0.2.0-amd64", "agent-0.2.0-amd64", "agent-0.2.0-arm64"],
  );
  assert.deepEqual((await plane.api.getFleet({ params: { id: fleet_id } })).data.desired, {});
  const later = await plane.enrollRobot({ fleet_id, kinds: KINDS });
  await plane.advance({ minutes: 1 });
  assert.equal(later.runs(AGENT_APP), undefined);
  await checkEngine(plane, { ended: true });
});

test("a robot that reconnects after an agent deployment ended is not sent the agent version again", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ kinds: KINDS });
  await plane.deploy(await agentRelease(plane, "0.2.0", "amd64"), { robot_id: robot.id });
  await plane.deploy(await plane.release({ app: "nav" }), { robot_id: robot.id });
  await plane.settle();
  await robot.disconnect();
  await robot.connect();
  await plane.settle();
  assert.deepEqual(Object.keys(robot.received.at(-1)?.apps ?? {}), ["nav"]);
});

test("an agent version that does not start is rolled back with a reason, and a rollback restores the old version", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ kinds: KINDS });
  const [good, bad] = [await agentRelease(plane, "0.2.0", "amd64"), await agentRelease(plane, "0.3.0", "amd64")];
  const first = await plane.deploy(good, { robot_id: robot.id });
  await plane.settle();
  robot.behave(rollBack("crash_loop"), bad.id);
  const second = await plane.deploy(bad, { robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.deployment(second.id)).status, "rolled_back");
  const { items } = await plane.api.listRobotTimeline({ params: { id: robot.id } });
  const entry = items.find(({ kind }) => kind === "deployment.rolled_back");
  assert.deepEqual([entry?.summary, entry?.data["reason"]], [`Release ${bad.tag} rolled back: simulated: crash_loop`, "crash_loop"]);
  assert.equal(robot.runs(AGENT_APP), good.tag);
  const back = (await plane.api.rollBackDeployment({ params: { id: first.id } })).data;
  await plane.settle();
  assert.equal((await plane.deployment(back.id)).status, "applied");
  assert.equal(robot.runs(AGENT_APP), undefined);
  const [newest] = (await plane.api.listRobotTimeline({ params: { id: robot.id } })).items;
  assert.equal(newest?.summary, "The agent returned to the version from before its first release");
});
