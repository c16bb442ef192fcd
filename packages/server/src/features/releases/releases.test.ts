import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import type { Release } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { startBlobSweep } from "./index.ts";
import { sha256, startReleaseRig } from "./testing/release-rig.ts";

const TIMEOUT = { timeout: 120_000 };
const BYTES = Buffer.from("the bytes of the release");

test("returns 201 for a new release, 200 for the same content and 409 for different content", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const first = await rig.create("v1", BYTES, { notes: "first" });
  assert.equal(first.status, 201);
  const { id, created_at: _, updated_at: __, ...release } = first.body.data;
  assert.match(id, /^rel_[0-9a-z]{26}$/);
  assert.equal(first.headers["location"], `/api/releases/${id}`);
  assert.deepEqual(release, {
    tag: "v1",
    app: "main",
    notes: "first",
    kind: "file",
    artifact_sha256: sha256(BYTES),
    artifact_size: BYTES.length,
    artifact_state: "awaiting_upload",
    image: null,
    manifest: null,
    signature: null,
    created_by: { type: "org_token", id: rig.org.token_id, name: "admin" },
  });
  const again = await rig.create("v1", BYTES, { notes: "other notes" });
  assert.deepEqual([again.status, again.body.data], [200, first.body.data]);

  const other = await rig.create("v1", Buffer.from("x"), { app: "nav", manifest: { path: "/x" } });
  const { error } = other.body as unknown as { error: { code: string; message: string } };
  assert.deepEqual([other.status, error.code], [409, "conflict"]);
  for (const difference of [
    "app is main, not nav",
    `artifact_size is ${BYTES.length}, not 1`,
    `artifact_sha256 is ${sha256(BYTES)}`,
    "manifest",
  ]) {
    assert.ok(error.message.includes(difference), error.message);
  }
  const answers = await Promise.all(Array.from({ length: 10 }, () => rig.create("v2", BYTES)));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [...Array.from({ length: 9 }, () => 200), 201]);
});

test("a release with a registry image is external and has no artifact", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const image = `registry.example/app@sha256:${"a".repeat(64)}`;
  const { status, body } = await rig.create("v1", BYTES, { kind: "container_image", image });
  assert.deepEqual([status, body.data.artifact_state, body.data.image], [201, "external", image]);
  assert.equal((await rig.put(body.data.id, BYTES)).status, 409);
  assert.equal((await rig.fetch(body.data.id)).status, 404);
  assert.equal((await rig.create("v2", BYTES, { kind: "file", image })).status, 400);
});

test("lists releases newest first, by tag, app, kind and part of the tag", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  await rig.create("App-1", BYTES);
  await rig.create("app-2", BYTES, { app: "nav" });
  await rig.create("other", BYTES, { kind: "app_bundle" });
  const other = await rig.anotherOrg();
  const tags = async (query: string, token = rig.org.token) =>
    (await rig.call<{ items: Release[] }>("GET", `/api/releases${query}`, { token })).body.items.map(({ tag }) => tag);
  assert.deepEqual(await tags(""), ["other", "app-2", "App-1"]);
  assert.deepEqual(await tags("?q=APP"), ["app-2", "App-1"]);
  assert.deepEqual(await tags("?tag=app-2"), ["app-2"]);
  assert.deepEqual(await tags("?app=nav"), ["app-2"]);
  assert.deepEqual(await tags("?kind=app_bundle"), ["other"]);
  assert.deepEqual(await tags("", other.token), []);
});

test("returns 404 for another org's release on every route", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { body } = await rig.create("v1", BYTES);
  const { token } = await rig.anotherOrg();
  for (const method of ["GET", "DELETE"] as const)
    assert.equal((await rig.call(method, `/api/releases/${body.data.id}`, { token })).status, 404);
  assert.equal((await rig.call("GET", `/api/releases/${body.data.id}/artifact`, { token })).status, 404);
  assert.equal((await rig.put(body.data.id, BYTES, token)).status, 404);
  assert.equal(await rig.state(body.data.id), "awaiting_upload");
});

test("returns 409 for deleting a release that a robot or an open deployment uses", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { db, clock } = rig.plane;
  const { org_id, token } = rig.org;
  const { robot_id } = await seedRobot(rig.plane, org_id);
  const { id } = (await rig.create("v1", BYTES)).body.data;
  const remove = async () => (await rig.call("DELETE", `/api/releases/${id}`, { token })).status;
  await db.run(sql`insert into robot_app (org_id, robot_id, app, updated_at) values (${org_id}, ${robot_id}, 'main', ${clock.now()})`);
  for (const change of [
    sql`update robot_app set current_release_id = ${id} where org_id = ${org_id}`,
    sql`update robot_app set current_release_id = null, previous_release_id = ${id} where org_id = ${org_id}`,
    sql`update robot_app set previous_release_id = null, desired_release_id = ${id} where org_id = ${org_id}`,
  ]) {
    await db.run(change);
    assert.equal(await remove(), 409);
  }
  await db.run(sql`update robot_app set desired_release_id = null where org_id = ${org_id}`);
  await db.run(sql`
    insert into deployment (org_id, id, kind, target_kind, release_id, status, created_by, created_at, updated_at)
    values (${org_id}, 'dep_1', 'release', 'robot', ${id}, 'queued', '{}', ${clock.now()}, ${clock.now()})`);
  assert.equal(await remove(), 409);
  await db.run(sql`update deployment set status = 'applied', finished_at = ${clock.now()} where org_id = ${org_id}`);
  assert.equal(await remove(), 200);
  assert.equal(await remove(), 404);
});

test("deletes a blob a day after its last release, unless a new release uses it", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { token } = rig.org;
  const sweep = startBlobSweep(rig.plane);
  const [gone, shared] = [Buffer.from("gone"), Buffer.from("shared")];
  const ids: string[] = [];
  for (const [tag, bytes] of [
    ["a", gone],
    ["b", shared],
    ["c", shared],
    ["d", BYTES],
  ] as const) {
    const { id } = (await rig.create(tag, bytes)).body.data;
    assert.equal((await rig.put(id, bytes)).status, 200);
    ids.push(id);
  }
  const left = async () => (await rig.kept()).keys.map((key) => key.split("/")[1]).toSorted();
  const all = [gone, shared, BYTES].map(sha256).toSorted();
  for (const id of [ids[0], ids[1], ids[3]]) await rig.call("DELETE", `/api/releases/${id}`, { token });
  await rig.clock.advance({ hours: 23 });
  await sweep.settled();
  assert.deepEqual(await left(), all);
  // The artifact is used again: it is stored without another upload.
  const { id } = (await rig.create("e", BYTES)).body.data;
  assert.equal((await rig.put(id, BYTES)).status, 200);
  await rig.clock.advance({ hours: 3 });
  sweep.wake();
  await sweep.settled();
  assert.deepEqual(await left(), [shared, BYTES].map(sha256).toSorted());
  await sweep.stop();
});

test("deletes a blob without a database row a day after it was found", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const staged = await rig.blobs.receive(Readable.from([BYTES]), { max_bytes: 100 });
  await staged.commit(`${rig.org.org_id}/${sha256(BYTES)}`);
  const sweep = startBlobSweep(rig.plane);
  sweep.wake();
  await sweep.settled();
  assert.equal((await rig.kept()).keys.length, 1);
  await rig.clock.advance({ hours: 25 });
  sweep.wake();
  await sweep.settled();
  assert.deepEqual((await rig.kept()).keys, []);
  await sweep.stop();
});

test("a robot downloads only the artifact that it must install, whole or in ranges", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { db, clock } = rig.plane;
  const { org_id } = rig.org;
  const { robot_id, ...place } = await seedRobot(rig.plane, org_id);
  const { robot_id: second } = await seedRobot(rig.plane, org_id, place);
  const { id } = (await rig.create("v1", BYTES)).body.data;
  await rig.put(id, BYTES);
  await db.run(
    sql`insert into robot_app (org_id, robot_id, app, desired_release_id, updated_at) values (${org_id}, ${robot_id}, 'main', ${id}, ${clock.now()})`,
  );
  const get = (as: string, digest: string, headers: Record<string, string> = {}) =>
    rig.call<unknown>("GET", `/agent/artifacts/${digest}`, {
      headers: { ...headers, authorization: `RobotSignature ${as}:${clock.now().getTime()}:${"A".repeat(22)}::x` },
    });
  const whole = await get(robot_id, sha256(BYTES));
  assert.deepEqual([whole.status, whole.body, whole.headers["accept-ranges"]], [200, BYTES.toString(), "bytes"]);
  const part = await get(robot_id, sha256(BYTES), { range: "bytes=4-", "if-range": `"${sha256(BYTES)}"` });
  assert.deepEqual([part.status, part.body], [206, BYTES.subarray(4).toString()]);
  assert.equal((await get(second, sha256(BYTES))).status, 404);
  assert.equal((await get(robot_id, "../../x")).status, 404);
});

test("of a concurrent deployment and deletion of a release, only one succeeds", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { db, clock } = rig.plane;
  const { org_id, token } = rig.org;
  const { robot_id } = await seedRobot(rig.plane, org_id);
  for (let round = 0; round < 10; round += 1) {
    const { id } = (await rig.create(`v${round}`, BYTES)).body.data;
    const [removed, deployed] = await Promise.all([
      rig.call("DELETE", `/api/releases/${id}`, { token }),
      rig.call("POST", "/api/deployments", { token, body: { release: id, robot_id }, headers: { "idempotency-key": id } }),
    ]);
    assert.deepEqual([removed.status, deployed.status], removed.status === 200 ? [200, 404] : [409, 201]);
    await db.run(sql`update deployment set status = 'cancelled', finished_at = ${clock.now()} where org_id = ${org_id}`);
  }
});
