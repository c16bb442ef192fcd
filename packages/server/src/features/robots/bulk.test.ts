import assert from "node:assert/strict";
import { test } from "node:test";
import type { BulkOutcome, Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { json, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { timelineRoutes } from "../timeline/index.ts";
import { createCredential } from "../tokens/index.ts";
import { robotRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type Answer = { items: BulkOutcome[]; error: { code: string; message: string } };

async function start() {
  const rig = await startFeaturePlane([robotRoutes, timelineRoutes]);
  const { org_id, token } = await rig.org({ role: "operator" });
  const here = await seedRobot(rig.plane, org_id);
  const also = await seedRobot(rig.plane, org_id, here);
  const there = await seedRobot(rig.plane, org_id);
  const bulk = (body: unknown, as = token, headers: Record<string, string> = {}) =>
    rig.call<Answer>("POST", "/api/robots/bulk", { token: as, body, headers });
  const robot = async (id: string) => (await rig.call<{ data: Robot }>("GET", `/api/robots/${id}`, { token })).body.data;
  const timeline = async (id: string) =>
    (await rig.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${id}/timeline`, { token })).body.items;
  return { rig, org_id, token, here, also, there, bulk, robot, timeline, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() };
}

const outcomes = ({ body }: { body: Answer }) => body.items.map(({ robot_id, outcome }) => [robot_id, outcome]);

test("sets and removes labels of several robots, and returns one result per robot in order", TIMEOUT, async () => {
  await using it = await start();
  const { here, also, there, org_id, rig } = it;
  const label = (id: string, labels: Record<string, string>) =>
    rig.plane.db.run(sql`update robot set labels = ${json(labels)} where org_id = ${org_id} and id = ${id}`);
  await label(here.robot_id, { zone: "a", spare: "yes", kept: "1" });
  await label(also.robot_id, { zone: "b" });
  await rig.plane.db.run(sql`update robot set decommissioned_at = ${rig.clock.now()} where org_id = ${org_id} and id = ${there.robot_id}`);
  const stranger = await seedRobot(rig.plane, (await rig.org()).org_id);
  const robot_ids = [also.robot_id, here.robot_id, there.robot_id, stranger.robot_id, here.robot_id];
  const answer = await it.bulk({ robot_ids, labels: { set: { zone: "b" }, remove: ["spare"] } });
  assert.equal(answer.status, 200);
  assert.deepEqual(outcomes(answer), [
    [also.robot_id, "unchanged"],
    [here.robot_id, "changed"],
    [there.robot_id, "conflict"],
    [stranger.robot_id, "not_found"],
  ]);
  assert.deepEqual((await it.robot(here.robot_id)).labels, { zone: "b", kept: "1" });
  const many = Object.fromEntries(Array.from({ length: 63 }, (_, i) => [`l${i}`, ""]));
  const full = await it.bulk({ robot_ids: [here.robot_id, also.robot_id], labels: { set: many } });
  assert.deepEqual(outcomes(full), [
    [here.robot_id, "conflict"],
    [also.robot_id, "changed"],
  ]);
  assert.match(full.body.items[0]?.message ?? "", /would have 65 labels; at most 64/);
});

test("records a bulk move in each moved robot's timeline, once per Idempotency-Key", TIMEOUT, async () => {
  await using it = await start();
  const { here, also, there } = it;
  const body = { robot_ids: [here.robot_id, also.robot_id, there.robot_id], fleet_id: there.fleet_id };
  const headers = { "idempotency-key": "a move of three robots" };
  const answer = await it.bulk(body, it.token, headers);
  assert.deepEqual(
    answer.body.items.map(({ outcome }) => outcome),
    ["changed", "changed", "unchanged"],
  );
  const replay = await it.bulk(body, it.token, headers);
  assert.deepEqual([replay.body, replay.headers["idempotency-replayed"]], [answer.body, "true"]);
  const { site_id, fleet_id } = await it.robot(here.robot_id);
  assert.deepEqual([site_id, fleet_id], [there.site_id, there.fleet_id]);
  const moves_recorded = await Promise.all(body.robot_ids.map(async (id) => (await it.timeline(id)).map(({ kind, data }) => [kind, data])));
  const moved = [
    "robot.moved",
    { from: { site_id: here.site_id, fleet_id: here.fleet_id }, to: { site_id: there.site_id, fleet_id: there.fleet_id } },
  ];
  assert.deepEqual(moves_recorded, [[moved], [moved], []]);
});

test("a bulk change affects only robots of which the caller is an operator", TIMEOUT, async () => {
  await using it = await start();
  const { here, also, there, org_id, rig } = it;
  const limited = await createCredential(rig.plane.db, rig.plane, {
    kind: "org",
    org_id,
    role: "operator",
    label: "one fleet",
    scopes: [{ fleet_id: here.fleet_id }],
  });
  const ids = [here.robot_id, there.robot_id];
  assert.deepEqual(outcomes(await it.bulk({ robot_ids: ids, labels: { set: { by: "me" } } }, limited.secret)), [
    [here.robot_id, "changed"],
    [there.robot_id, "not_found"],
  ]);
  assert.equal((await it.robot(there.robot_id)).labels.by, undefined);
  const away = await it.bulk({ robot_ids: [here.robot_id], fleet_id: there.fleet_id }, limited.secret);
  assert.deepEqual([away.status, away.body.error.message], [404, `fleet ${there.fleet_id} does not exist`]);
  const viewer = await rig.org({ role: "viewer" });
  assert.equal((await it.bulk({ robot_ids: [also.robot_id], labels: {} }, viewer.token)).status, 403);
});

test("returns 400 for a bulk change without changes or robots, too many robots or invalid labels", TIMEOUT, async () => {
  await using it = await start();
  const { robot_id } = it.here;
  for (const body of [
    { robot_ids: [robot_id] },
    { robot_ids: [], labels: {} },
    { robot_ids: Array.from({ length: 1_001 }, () => robot_id), labels: {} },
    { robot_ids: [robot_id], labels: { set: { "": "x" } } },
  ])
    assert.equal((await it.bulk(body)).status, 400, JSON.stringify(body).slice(0, 100));
});
