import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack, slow } from "@roamfleet/swarm/testing";
import { startPlane } from "../harness/index.ts";
import { freshKey } from "./http.ts";
import { httpOf } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const AT = "2030-01-01T00:00:00Z";

test("a deployment ends as applied, failed, rolled_back or cancelled, and never changes afterwards", LIMIT, async () => {
  await using plane = await startPlane({ at: AT });
  const http = httpOf(plane);
  const [a, b, c, d] = await plane.enrollRobots(4);
  const release = await plane.release();
  b?.behave(rollBack());
  await c?.disconnect();
  const first = await plane.release();
  d?.behave(rollBack(), release.tag);
  await plane.deploy(first, { robot_id: d?.id ?? "" });
  await plane.settle();
  const made: string[] = [];
  for (const robot of [a, b, c, d]) made.push((await plane.deploy(release, { robot_id: robot?.id ?? "" })).id);
  await plane.settle();
  assert.equal((await http.post(`/api/deployments/${made[2]}/cancel`)).data.status, "cancelled");
  const statuses = async () => Promise.all(made.map(async (id) => (await http.get(`/api/deployments/${id}`)).data.status));
  assert.deepEqual(await statuses(), ["applied", "failed", "cancelled", "rolled_back"]);
  await plane.advance({ minutes: 10 });
  assert.deepEqual(await statuses(), ["applied", "failed", "cancelled", "rolled_back"]);
  for (const id of made) assert.match((await http.post(`/api/deployments/${id}/cancel`)).refusal, /^409 conflict: .*ended/);
});

test("a deployment changes from queued to in_progress to applied, with an event for each status", LIMIT, async () => {
  await using plane = await startPlane({ at: AT });
  const http = httpOf(plane);
  const robot = await plane.enrollRobot({ behavior: slow(10_000) });
  const { id, status } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  assert.equal(status, "queued");
  await plane.advance({ seconds: 25 });
  assert.equal((await http.get(`/api/deployments/${id}`)).data.status, "in_progress");
  await plane.advance({ minutes: 1 });
  const { items } = await http.get(`/api/deployments/${id}/events`);
  assert.deepEqual(
    items.map((event) => event.status),
    ["queued", "in_progress", "applied"],
  );
});

test("a scheduled deployment is dispatched at its time and not earlier", LIMIT, async () => {
  await using plane = await startPlane({ at: AT });
  const http = httpOf(plane);
  const robot = await plane.enrollRobot();
  const body = { release: (await plane.release()).id, robot_id: robot.id, scheduled_at: "2030-01-01T03:00:00+02:00" };
  const { data } = await http.post("/api/deployments", body, freshKey());
  assert.deepEqual([data.status, data.scheduled_at], ["scheduled", "2030-01-01T01:00:00.000Z"]);
  await plane.advance({ minutes: 59, seconds: 59 });
  assert.equal(robot.received.filter(({ apps }) => apps.main !== undefined).length, 0);
  assert.equal((await http.get(`/api/deployments/${String(data.id)}`)).data.status, "scheduled");
  await plane.advance({ seconds: 2 });
  assert.equal(robot.received.filter(({ apps }) => apps.main !== undefined).length, 1);
  const ended = (await http.get(`/api/deployments/${String(data.id)}`)).data;
  assert.deepEqual([ended.status, ended.started_at], ["applied", "2030-01-01T01:00:00.000Z"]);
});

test("a deployment scheduled in the past is dispatched immediately, and its event gives the reason", LIMIT, async () => {
  await using plane = await startPlane({ at: AT });
  const http = httpOf(plane);
  const robot = await plane.enrollRobot();
  const body = { release: (await plane.release()).id, robot_id: robot.id, scheduled_at: "2029-12-31T23:00:00Z" };
  const { data } = await http.post("/api/deployments", body, freshKey());
  assert.equal(data.status, "queued");
  await plane.settle();
  assert.equal((await http.get(`/api/deployments/${String(data.id)}`)).data.status, "applied");
  const [first] = (await http.get(`/api/deployments/${String(data.id)}/events`)).items;
  assert.match(String(first?.message), /2029-12-31T23:00:00\.000Z has passed/);
});
