import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Enrolled, EnrollmentKey, NewEnrollmentKey, Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { fleetRoutes } from "../fleets/index.ts";
import { closeRemovedRobots, createAdmission, robotConnected, robotRoutes } from "../robots/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { CHALLENGE, enrollRobot, fakeSession, type Identity, makePlace, newIdentity, signedHello } from "../testing/places.ts";
import { timelineRoutes } from "../timeline/index.ts";
import { enrollmentRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };

async function withRobot() {
  const sessions = new Map<string, Session>();
  const it = await startFeaturePlane([siteRoutes, fleetRoutes, enrollmentRoutes, robotRoutes, timelineRoutes], { sessions });
  const unwatch = closeRemovedRobots(it.plane);
  const { token, org_id } = await it.org();
  const place = await makePlace(it, token);
  const { robot_id, identity } = await enrollRobot(it, place, { name: "Arm 7", labels: { zone: "a" } });
  const replace = (as = token, id = robot_id) => it.call<{ data: NewEnrollmentKey }>("POST", `/api/robots/${id}/replace`, { token: as });
  const enroll = (key: string | null, public_key: string, name = "other name") =>
    it.call<{ data: Enrolled; error: { code: string; message: string } }>("POST", "/agent/enroll", { body: { key, public_key, name } });
  const robot = async () => (await it.call<{ data: Robot }>("GET", `/api/robots/${robot_id}`, { token })).body.data;
  const timeline = async () =>
    (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${robot_id}/timeline`, { token })).body.items.map(({ kind }) => kind);
  const admit = createAdmission(it.plane, (_db, _org_id, outboxes) => Promise.resolve(outboxes.map(() => 0)));
  const admission = async (who: Identity, nonce = "nonce") => {
    const answer = await admit(signedHello(who, robot_id, nonce), { ...CHALLENGE, nonce }, "192.0.2.1");
    return answer.admitted ? "admitted" : answer.code;
  };
  return { it, token, org_id, place, robot_id, identity, sessions, unwatch, replace, enroll, robot, timeline, admit, admission };
}

test("a replacement computer that enrolls with the key becomes the same robot and disconnects the old one", TIMEOUT, async () => {
  const { it, org_id, token, robot_id, identity, sessions, unwatch, replace, enroll, robot, timeline, admission } = await withRobot();
  await using _ = it;
  const before = await robot();
  const { status, headers, body } = await replace();
  const { key, ...shown } = body.data;
  assert.equal(status, 201);
  assert.deepEqual(
    [shown.robot_id, shown.max_uses, shown.expires_at, shown.fleet_id, headers["location"]],
    [robot_id, 1, "2030-01-02T00:00:00.000Z", before.fleet_id, `/api/enrollment-keys/${shown.id}`],
  );
  const old_link = fakeSession("sess_1", org_id, signedHello(identity, robot_id, "nonce"));
  sessions.set(robot_id, old_link);
  await it.plane.db.run(sql`
      update robot set node_id = ${it.plane.node.id}, node_epoch = ${it.plane.node.epoch}, session_id = 'sess_1' where org_id = ${org_id} and id = ${robot_id}`);
  await it.clock.advance({ minutes: 1 });
  const fresh = newIdentity();
  const enrolled = await enroll(key, fresh.public_key);
  assert.deepEqual([enrolled.status, enrolled.body.data], [201, { robot_id, org_id, name: "Arm 7" }]);
  assert.equal((await until("the old link to be closed", () => old_link.closed)).code, 4404);
  assert.equal((await timeline())[0], "robot.replaced");
  const after = await robot();
  assert.notEqual(after.public_key_fingerprint, before.public_key_fingerprint);
  const same = { public_key_fingerprint: "", updated_at: "", status: "online" };
  assert.deepEqual({ ...after, ...same }, { ...before, ...same });
  assert.deepEqual([await admission(identity), await admission(fresh)], ["bad_signature", "admitted"]);
  // Repeat the request, as after a lost response: the result is the same. For any other computer, the key is used up.
  assert.deepEqual([(await enroll(key, fresh.public_key)).status, (await enroll(key, newIdentity().public_key)).status], [200, 403]);
  const old = await enroll(key, identity.public_key);
  assert.deepEqual([old.status, old.body.error.message], [403, "the enrollment key is exhausted"]);
  const { items } = (await it.call<{ items: EnrollmentKey[] }>("GET", "/api/enrollment-keys?status=exhausted", { token })).body;
  assert.deepEqual(
    items.map(({ id }) => id),
    [shown.id],
  );
  unwatch();
});

test("closes the old computer's link if that link is recorded after the replacement", TIMEOUT, async () => {
  const { it, org_id, robot_id, identity, replace, enroll, robot, unwatch, admit } = await withRobot();
  await using _ = it;
  const { key } = (await replace()).body.data;
  const hello = signedHello(identity, robot_id, "nonce");
  const admission = await admit(hello, CHALLENGE, "192.0.2.1");
  assert.ok(admission.admitted);
  await enroll(key, newIdentity().public_key);
  const late = fakeSession("sess_1", org_id, hello);
  await robotConnected(it.plane, late, admission.public_key);
  assert.deepEqual([late.closed?.code, (await robot()).status], [4404, "never_connected"]);
  unwatch();
});

test("refuses a replacement key that is revoked by a newer one, expired or used by another robot", TIMEOUT, async () => {
  const { it, token, place, robot_id, replace, enroll, unwatch } = await withRobot();
  await using _ = it;
  const message = async (key: string | null, public_key = newIdentity().public_key) => {
    const { status, body } = await enroll(key, public_key);
    return `${status} ${body.error?.message ?? ""}`;
  };
  const first = (await replace()).body.data;
  const second = (await replace()).body.data;
  assert.equal(await message(first.key), "403 the enrollment key is revoked");
  const other = await enrollRobot(it, place, { name: "Arm 8" });
  assert.match(await message(second.key, other.identity.public_key), /^403 .*another robot/);
  await it.clock.advance({ hours: 24 });
  assert.equal(await message(second.key), "403 the enrollment key is expired");
  const third = (await replace()).body.data;
  await it.call("DELETE", `/api/robots/${robot_id}`, { token });
  assert.match(await message(third.key), /^403 .*decommissioned/);
  assert.equal((await replace()).status, 409);
  assert.equal((await replace((await it.org()).token)).status, 404);
  assert.equal((await replace((await it.org({ role: "viewer" })).token)).status, 403);
  unwatch();
});

test("of ten computers that enroll concurrently with one replacement key, one becomes the robot", TIMEOUT, async () => {
  const { it, identity, replace, enroll, admission, unwatch } = await withRobot();
  await using _ = it;
  const { key } = (await replace()).body.data;
  const computers = Array.from({ length: 10 }, () => newIdentity());
  const answers = await Promise.all(computers.map(({ public_key }) => enroll(key, public_key)));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, ...Array.from({ length: 9 }, () => 403)]);
  const admitted = await Promise.all([identity, ...computers].map((who) => admission(who)));
  assert.equal(admitted.filter((code) => code === "admitted").length, 1);
  unwatch();
});
