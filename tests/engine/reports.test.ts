import assert from "node:assert/strict";
import { test } from "node:test";
import type { TargetReport } from "@roamfleet/protocol/link";
import { rollBack, slow } from "@roamfleet/swarm/testing";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

/** Returns a function that makes a report about a robot's target, for reports that are sent out of order. */
async function about(
  plane: Harness,
  deployment_id: string,
  robot_id: string,
): Promise<(said: Pick<TargetReport, "status"> & Partial<TargetReport>) => TargetReport> {
  const target = (await plane.targets(deployment_id)).get(robot_id);
  assert.ok(target !== undefined);
  return (said) => ({ kind: "target", deployment_id, target_id: target.id, attempt: target.attempt, ...said });
}
const statusOf = async (plane: Harness, id: string, robot_id: string) => (await plane.targets(id)).get(robot_id)?.status;
const ignored = (plane: Harness): unknown[] => plane.logged.filter(({ msg }) => msg === "report ignored").map(({ why }) => why);

test("ignores and logs reports about another attempt or an earlier step", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: slow(10_000) });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  await plane.advance({ seconds: 22 });
  const say = await about(plane, id, robot.id);
  const before = await plane.events(id, { targets: true });
  for (const said of [
    { status: "downloading" },
    { status: "installing" },
    { status: "applied", attempt: 2 },
    { status: "failed", attempt: 0 },
    { status: "cancelled" },
  ] as const)
    robot.report(say(said));
  await plane.settle();
  assert.equal(await statusOf(plane, id, robot.id), "installing");
  assert.deepEqual(await plane.events(id, { targets: true }), before);
  assert.deepEqual(ignored(plane), ["backwards", "backwards", "stale_attempt", "stale_attempt", "too_late_to_cancel"]);
  assert.equal(robot.unacknowledged.length, 0, "ignored reports are acknowledged, or they would be repeated forever");
  await plane.advance({ minutes: 1 });
  robot.report(say({ status: "failed", reason: "crash_loop" }));
  await plane.settle();
  assert.equal((await plane.deployment(id)).status, "applied", "the end is final");
  assert.equal(ignored(plane).at(-1), "ended");
  await checkEngine(plane, { ended: true });
});

test("ignores reports about another robot's targets", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const other_org = await plane.org();
  const robot = await plane.enrollRobot({ behavior: slow(10_000) });
  const [neighbor, stranger] = [await plane.enrollRobot(), await other_org.enrollRobot()];
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const say = await about(plane, id, robot.id);
  for (const liar of [neighbor, stranger]) {
    liar.report(say({ status: "applied" }));
    liar.progress(say({ status: "applied" }).target_id, 1, 7, 7);
  }
  await plane.settle();
  assert.equal(await statusOf(plane, id, robot.id), "downloading");
  assert.deepEqual((await plane.targets(id)).get(robot.id)?.progress, { bytes_done: 0, bytes_total: 20 });
  assert.deepEqual(ignored(plane), ["unknown_target", "unknown_target"]);
  await checkEngine(plane);
});

test("processes the reports of an offline period once and in order after the reconnect", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: { step_ms: { downloading: 5_000, installing: 5_000 }, offline_at: "downloading" } });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  await plane.advance({ seconds: 30 });
  assert.equal(await statusOf(plane, id, robot.id), "downloading");
  assert.ok(robot.unacknowledged.length >= 5);
  await robot.connect();
  await plane.settle();
  assert.equal(robot.unacknowledged.length, 0);
  assert.deepEqual(await plane.events(id, { targets: true }), [
    "deployment.queued",
    "target.dispatched",
    "deployment.in_progress",
    "target.downloading",
    "target.staged",
    "target.installing",
    "target.verifying",
    "target.applied",
    "deployment.applied",
  ]);
  await checkEngine(plane, { ended: true });
});

test("acknowledges a report that is repeated much later, and ignores it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: { step_ms: { installing: 5_000 }, offline_at: "installing" } });
  const [old, newer] = [await plane.release(), await plane.release()];
  await plane.deploy(old, { robot_id: robot.id });
  await plane.advance({ seconds: 30 });
  const waiting = [...robot.unacknowledged];
  assert.ok(waiting.some(({ body }) => body.kind === "app" && body.release_id === old.id));
  await robot.connect();
  robot.behave({});
  const { id } = await plane.deploy(newer, { robot_id: robot.id });
  await plane.settle();
  const events = await plane.events(id, { targets: true });
  for (const report of waiting) robot.repeat(report);
  await plane.settle();
  const { data } = await plane.api.getRobot({ params: { id: robot.id } });
  assert.deepEqual([data.current_release?.id, data.desired_release?.id, robot.runs()], [newer.id, newer.id, newer.tag]);
  assert.deepEqual(await plane.events(id, { targets: true }), events);
  await checkEngine(plane, { ended: true });
});

test("a deployment is completed although its robot repeatedly disconnects and restarts", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: slow(10_000) });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  for (let i = 0; i < 4; i += 1) {
    await plane.advance({ seconds: 7 });
    await robot.restart();
    await plane.settle();
    await checkEngine(plane);
  }
  await plane.advance({ minutes: 2 });
  assert.equal((await plane.deployment(id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a running deployment continues after a server restart at any step", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ behavior: slow(10_000) });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  for (let i = 0; i < 5; i += 1) {
    await plane.restart();
    await checkEngine(plane);
    await plane.advance({ seconds: 9 });
  }
  await plane.advance({ minutes: 1 });
  assert.equal((await plane.deployment(id)).status, "applied");
  assert.equal((await plane.targets(id)).get(robot.id)?.attempt, 1, "no step was repeated");
  await checkEngine(plane, { ended: true });
});

test("the target of a removed robot ends with the removal as its reason", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [gone, stays] = await plane.enrollRobots(2, { fleet_id, behavior: slow(10_000) });
  assert.ok(gone && stays);
  const { id } = await plane.deploy(await plane.release(), { fleet_id });
  await plane.settle();
  await plane.advance({ seconds: 22 });
  assert.equal(await statusOf(plane, id, gone.id), "installing");
  await plane.api.deleteRobot({ params: { id: gone.id } });
  await plane.settle();
  const target = (await plane.targets(id)).get(gone.id);
  assert.deepEqual([target?.status, target?.reason], ["cancelled", "robot_removed"]);
  await plane.advance({ minutes: 1 });
  const { status, counts } = await plane.deployment(id);
  assert.deepEqual([status, counts.applied, counts.cancelled], ["applied", 1, 1]);
  await checkEngine(plane, { ended: true });
});

test("an offline robot gets its deployment immediately when it connects", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ online: false });
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  const waiting = (await plane.targets(id)).get(robot.id);
  assert.deepEqual([waiting?.status, waiting?.waiting_for], ["queued", "robot_online"]);
  assert.equal((await plane.deployment(id)).status, "queued");
  await plane.advance({ minutes: 10 });
  await robot.connect();
  await plane.settle();
  assert.equal((await plane.deployment(id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a deployment waits until its artifact is uploaded", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const robots = await plane.enrollRobots(3, { fleet_id });
  const release = await plane.release({ upload: false });
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.advance({ minutes: 1 });
  for (const { waiting_for } of (await plane.targets(id)).values()) assert.equal(waiting_for, "artifact");
  assert.deepEqual(
    robots.flatMap(({ received }) => received.filter(({ apps }) => apps.main !== undefined)),
    [],
  );
  await plane.upload(release.id);
  await plane.settle();
  assert.equal((await plane.deployment(id)).counts.applied, 3);
  await checkEngine(plane, { ended: true });
});

test("finds an uploaded artifact even if the notification about it was lost", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const release = await plane.release({ upload: false });
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  await plane.db.run(sql`update release set artifact_state = 'stored' where id = ${release.id}`);
  await plane.advance({ seconds: 31 });
  assert.equal((await plane.deployment(id)).status, "applied");
});

test("a release of a kind that a robot cannot install fails within a second on that robot only", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [plain] = await plane.enrollRobots(1, { fleet_id });
  const [docker] = await plane.enrollRobots(1, { fleet_id, kinds: ["container_image"] });
  assert.ok(plain && docker);
  const { id } = await plane.deploy(await plane.release({ kind: "container_image" }), { fleet_id });
  await plane.advance({ milliseconds: 1 });
  const targets = await plane.targets(id);
  assert.deepEqual(
    [targets.get(plain.id)?.status, targets.get(plain.id)?.reason, targets.get(docker.id)?.status],
    ["failed", "incompatible", "applied"],
  );
  assert.deepEqual(
    plain.received.filter(({ apps }) => apps.main !== undefined),
    [],
  );
  const { status, reason } = await plane.deployment(id);
  assert.deepEqual({ status, reason }, { status: "failed", reason: "incompatible" });
  await checkEngine(plane, { ended: true });
});

test("a bad release is rolled back to the previous one, or fails if there is none", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [old, fresh] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(old && fresh);
  const [good, bad] = [await plane.release(), await plane.release()];
  await plane.deploy(good, { robot_id: old.id });
  await plane.settle();
  for (const robot of [old, fresh]) robot.behave(rollBack("health_check_failed", { verifying: 30_000 }), bad.id);
  const { id } = await plane.deploy(bad, { fleet_id });
  await plane.advance({ minutes: 1 });
  const targets = await plane.targets(id);
  const shown = (robot_id: string) => [
    targets.get(robot_id)?.status,
    targets.get(robot_id)?.reason,
    targets.get(robot_id)?.previous_release_id,
  ];
  assert.deepEqual(shown(old.id), ["rolled_back", "health_check_failed", good.id]);
  assert.deepEqual(shown(fresh.id), ["failed", "health_check_failed", null]);
  assert.equal((await plane.deployment(id)).status, "failed");
  assert.deepEqual([old.runs(), fresh.runs()], [good.tag, undefined]);
  const robot = (await plane.api.getRobot({ params: { id: old.id } })).data;
  assert.deepEqual([robot.current_release?.id, robot.desired_release?.id], [good.id, good.id]);
  await checkEngine(plane, { ended: true });
});

test("a release that a robot already runs counts as applied without an installation", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  const again = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  const { status, reason } = await plane.deployment(again.id);
  assert.deepEqual({ status, reason }, { status: "applied", reason: "already_installed" });
  await checkEngine(plane, { ended: true });
});
