import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { publicKeyOf, signTrust } from "@roamfleet/protocol/signatures";
import { ApiError } from "@roamfleet/sdk";
import { rollBack, stuckAt } from "@roamfleet/swarm/testing";
import { ConnectionSync } from "../../packages/server/src/features/deployments/follow/connection-sync.ts";
import { followConnections } from "../../packages/server/src/features/deployments/follow/follow.ts";
import { listFleetsToFollow, moveFollowCursor, setFleetDesired } from "../../packages/server/src/features/fleets/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };

const rollback = async (plane: Harness, id: string) => (await plane.api.rollBackDeployment({ params: { id } })).data;
const retry = async (plane: Harness, id: string) => (await plane.api.retryDeployment({ params: { id }, body: {} })).data;
const desired = async (plane: Harness, id: string) => (await plane.api.getFleet({ params: { id } })).data.desired["main"]?.id;
const isConflict =
  (says: string) =>
  (error: unknown): boolean =>
    error instanceof ApiError && error.status === 409 && error.message.includes(says);

test("a retried rollback leaves the fleet without a release if most robots had none before", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [one, two, sick] = await plane.enrollRobots(3, { fleet_id });
  assert.ok(one && two && sick);
  const [old, release] = [await plane.release(), await plane.release()];
  await plane.deploy(old, { robot_id: sick.id });
  await plane.settle();
  const first = await plane.deploy(release, { fleet_id });
  await plane.settle();
  assert.equal(await desired(plane, fleet_id), release.id);
  sick.behave(rollBack("crash_loop"), old.id);
  const back = await rollback(plane, first.id);
  await plane.settle();
  assert.equal((await plane.deployment(back.id)).status, "failed");
  sick.behave({}, old.id);
  const again = await retry(plane, back.id);
  assert.deepEqual([again.release_id, again.rollback_of, again.counts.total], [old.id, null, 1]);
  await plane.settle();
  assert.equal((await plane.deployment(again.id)).status, "applied");
  assert.deepEqual([one.runs(), two.runs(), sick.runs()], [undefined, undefined, old.tag]);
  assert.equal(await desired(plane, fleet_id), undefined);
  await checkEngine(plane, { ended: true });
});

test("a retry of an older deployment on a few robots does not change the fleet's release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [good, sick] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(good && sick);
  const [older, newer] = [await plane.release(), await plane.release()];
  sick.behave(rollBack("crash_loop"), older.id);
  const first = await plane.deploy(older, { fleet_id });
  await plane.settle();
  await plane.advance({ seconds: 1 });
  await plane.deploy(newer, { fleet_id });
  await plane.settle();
  assert.equal(await desired(plane, fleet_id), newer.id);
  await plane.advance({ seconds: 1 });
  const again = await retry(plane, first.id);
  await plane.settle();
  assert.equal((await plane.deployment(again.id)).status, "rolled_back");
  sick.behave({}, older.id);
  const once_more = await retry(plane, again.id);
  await plane.settle();
  assert.equal((await plane.deployment(once_more.id)).status, "applied");
  assert.equal(await desired(plane, fleet_id), newer.id);
  const fresh = await plane.enrollRobot({ fleet_id });
  await plane.advance({ minutes: 1 });
  assert.deepEqual([good.runs(), sick.runs(), fresh.runs()], [newer.tag, older.tag, newer.tag]);
  // When a retry succeeds, its release becomes the fleet's release, unless there is a newer deployment.
  const [third, only] = [await plane.release(), await plane.enrollRobot({ fleet_id })];
  only.behave(rollBack("crash_loop"), third.id);
  const failed = await plane.deploy(third, { fleet_id });
  await plane.settle();
  assert.equal(await desired(plane, fleet_id), newer.id);
  only.behave({}, third.id);
  await retry(plane, failed.id);
  await plane.settle();
  assert.equal(await desired(plane, fleet_id), third.id);
  await checkEngine(plane, { ended: true });
});

test("checks a fleet's robots again from the start if its release changes during the check", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [one, two] = [await plane.release(), await plane.release()];
  const [org_id, now] = [plane.default_org.id, plane.clock.now()];
  const own = plane.plane.db.forOrg(org_id);
  const change = (release: { id: string; tag: string }) =>
    setFleetDesired(own, { org_id, id: fleet_id }, "main", { ...release, deployment_id: "dep_none" }, now);
  await change(one);
  const [before] = await listFleetsToFollow(plane.plane.db, 10);
  assert.deepEqual([before?.id, before?.follow_cursor], [fleet_id, ""]);
  await change(two);
  assert.equal(await moveFollowCursor(own, org_id, fleet_id, before?.version ?? "", null), 0);
  const [after] = await listFleetsToFollow(plane.plane.db, 10);
  assert.equal(after?.follow_cursor, "");
  assert.equal(await moveFollowCursor(own, org_id, fleet_id, after?.version ?? "", null), 1);
  assert.deepEqual(await listFleetsToFollow(plane.plane.db, 10), []);
});

test("a rollback of the fleet's release cancels automatic deployments that have not begun to install", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await plane.enrollRobot({ fleet_id });
  const release = await plane.release();
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  const late = await plane.enrollRobot({ fleet_id, behavior: stuckAt("downloading") });
  await plane.advance({ seconds: 10 });
  const automatic = async () => (await plane.api.listDeployments({})).items.find(({ robot_id }) => robot_id === late.id);
  assert.ok(await automatic());
  await rollback(plane, id);
  await plane.settle();
  await plane.advance({ minutes: 3 });
  const ended = await automatic();
  assert.deepEqual([ended?.status, ended?.reason], ["cancelled", "rollback_requested"]);
  assert.equal(late.runs(), undefined);
  await checkEngine(plane, { ended: true });
});

test("an org whose robots cannot be updated is retried without a busy loop, and delays no other org", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const sides = await Promise.all(
    [await plane.org(), await plane.org()].map(async (org) => {
      const fleet_id = await org.fleet();
      await org.enrollRobot({ fleet_id });
      const release = await org.release();
      await org.deploy(release, { fleet_id });
      return { org, fleet_id, release };
    }),
  );
  await plane.settle();
  await plane.db.run(sql`create table test_failing as select id as org_id from org`);
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql security definer as $$ begin
      if exists (select from test_failing where org_id = new.org_id) then raise exception 'planned: following fails in this org'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before insert on robot_follow for each row execute function test_fault()`);
  const failures = (): number =>
    plane.logged.filter(({ msg }) => msg === "could not update connected robots to their fleet's release").length;
  const late = await Promise.all(sides.map(({ org, fleet_id }) => org.enrollRobot({ fleet_id })));
  await plane.settle();
  assert.ok(failures() >= 2 && failures() <= 4, `${failures()} failures while no time passes`);
  const [first, second] = sides;
  assert.ok(first && second && late[0] && late[1]);
  await plane.db.run(sql`delete from test_failing where org_id <> ${first.org.id}`);
  const connections = new ConnectionSync();
  for (const [i, { org }] of sides.entries()) connections.add(org.id, late[i]?.id ?? "");
  assert.equal(await followConnections(plane.plane.db, plane.plane, connections), false, "no work is left at present");
  await plane.settle();
  assert.deepEqual([late[0].runs(), late[1].runs()], [undefined, second.release.tag]);
  await plane.db.run(sql`delete from test_failing`);
  await plane.advance({ seconds: 20 });
  assert.equal(late[0].runs(), first.release.tag);
});

test("refuses to delete the release of a fleet, and to deploy a deleted release again", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet({ name: "Harvesters" });
  const robot = await plane.enrollRobot({ fleet_id });
  const [release, bad] = [await plane.release(), await plane.release()];
  await plane.deploy(release, { fleet_id });
  await plane.settle();
  const remove = (id: string) => plane.api.deleteRelease({ params: { id } });
  // Deploy twice, so that the robot does not keep the release even as its previous one.
  for (let times = 0; times < 2; times += 1) {
    await plane.deploy(await plane.release(), { robot_id: robot.id });
    await plane.settle();
  }
  await assert.rejects(remove(release.id), isConflict("Harvesters"));

  robot.behave(rollBack("crash_loop"), bad.id);
  const { id } = await plane.deploy(bad, { robot_id: robot.id });
  await plane.settle();
  assert.equal((await plane.deployment(id)).counts.rolled_back, 1);
  await remove(bad.id);
  await assert.rejects(retry(plane, id), isConflict("were deleted"));
});

test("refuses a retry or rollback to an unsigned release if the org requires signatures", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  const [before, release, bad] = [await plane.release(), await plane.release(), await plane.release()];
  await plane.deploy(before, { robot_id: robot.id });
  await plane.settle();
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.settle();
  robot.behave(rollBack("crash_loop"), bad.id);
  const failed = await plane.deploy(bad, { robot_id: robot.id });
  await plane.settle();
  const { privateKey } = generateKeyPairSync("ed25519");
  const keys = [{ name: "maker", public_key: publicKeyOf(privateKey) }];
  const statement = signTrust({ org_id: plane.default_org.id, serial: 1, require_signature: true, keys, issued_at: AT }, privateKey);
  await plane.api.changeSigningKeys({ body: { statement } });
  await assert.rejects(retry(plane, failed.id), isConflict("would refuse it"));
  await assert.rejects(rollback(plane, id), isConflict("would refuse it"));
});
