import assert from "node:assert/strict";
import { test } from "node:test";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

test("suspending an org disconnects its robots and holds its deployments until it is resumed", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const org = await plane.org("Late payer");
  const admin = org.client(ADMIN_TOKEN);
  const [robot, other] = [await org.enrollRobot(), await plane.enrollRobot()];
  const release = await org.release();
  const { id } = await org.deploy(release, { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:05:00Z" });
  const open_key = await org.enrollmentKey();

  await admin.suspendOrg({ params: { id: org.id } });
  await plane.advance({ seconds: 2 });
  assert.equal(robot.connected, false);
  assert.equal(other.connected, true);
  assert.equal((await robot.get("/agent/configs/default")).status, 403);
  const enrolling = await plane.fetch(`${plane.url}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key: open_key, public_key: Buffer.alloc(32, 7).toString("base64") }),
  });
  assert.equal(enrolling.status, 403);
  await assert.rejects(robot.connect(), /suspended/);
  await plane.advance({ minutes: 10 });
  assert.equal(robot.connected, false);

  await admin.resumeOrg({ params: { id: org.id } });
  await plane.advance({ seconds: 2 });
  assert.deepEqual(await org.events(id), ["deployment.scheduled"], "paused, and starts immediately when resumed");
  await robot.connect();
  await plane.advance({ seconds: 30 });
  assert.equal((await org.deployment(id)).status, "applied");
  assert.equal(robot.runs(), release.tag);
  await checkEngine(plane, { ended: true });
});

test("a deployment expires after the number of days that its org sets", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot({ online: false });
  const release = await plane.release();
  const usual = await plane.deploy(release, { robot_id: robot.id });
  assert.equal(usual.expires_at, "2030-01-08T00:00:00.000Z");
  await plane.api.updateOrg({ body: { settings: { deployment_expires_days: 1 } } });
  const { expires_at } = await plane.deploy(release, { robot_id: robot.id });
  assert.equal(expires_at, "2030-01-02T00:00:00.000Z");
});
