import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { test } from "node:test";
import type { DesiredLayers } from "@roamfleet/protocol/link";
import { int, json, row, sql } from "../../kernel/sql.ts";
import { desiredOf } from "../deployments/dispatch/desired.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { startBlobSweep } from "./index.ts";
import { configOf, dockerArchive, ociEntries, tarOf } from "@roamfleet/protocol/image-archive/testing";
import { sha256, startReleaseRig } from "./testing/release-rig.ts";

const TIMEOUT = { timeout: 120_000 };
const IMAGE = { kind: "container_image" };
type Rig = Awaited<ReturnType<typeof startReleaseRig>>;

const BASE = Buffer.from("the base layer, which both have".repeat(3_000));
const [OLD, NEW] = [Buffer.from("the old program"), Buffer.from("the new program")];
const HOSTILE = tarOf([{ name: "../../etc/cron.d/x", content: "x" }]);

/** Creates a release and uploads these bytes. */
async function push(rig: Rig, tag: string, bytes: Buffer, more: object = IMAGE, token = rig.org.token): Promise<string> {
  const { id } = (await rig.create(tag, bytes, more, token)).body.data;
  const { status, body } = await rig.put(id, Uint8Array.from(bytes), token);
  assert.deepEqual([status, body.data.artifact_state], [200, "stored"]);
  return id;
}

const imagesOfRelease = async (rig: Rig, id: string) =>
  (
    await rig.call<{ data: { images?: { platform: string; config: object; layers: object[] }[] } }>("GET", `/api/releases/${id}`, {
      token: rig.org.token,
    })
  ).body.data.images;

const countParts = async (rig: Rig): Promise<number> =>
  (await rig.plane.db.one(sql(row({ count: int }))`select count(*)::int as count from artifact_layer where org_id = ${rig.org.org_id}`))
    .count;

async function runs(rig: Rig, robot_id: string, release_id: string, org_id = rig.org.org_id): Promise<void> {
  const { db, clock } = rig.plane;
  await db.run(sql`
    insert into robot_app (org_id, robot_id, app, desired_release_id, updated_at) values (${org_id}, ${robot_id}, 'main', ${release_id}, ${clock.now()})
    on conflict (org_id, robot_id, app) do update set desired_release_id = excluded.desired_release_id`);
}

const fetchAs = (rig: Rig, robot_id: string, digest: string, headers: Record<string, string> = {}) =>
  rig.call<unknown>("GET", `/agent/artifacts/${digest}`, {
    headers: { ...headers, authorization: `RobotSignature ${robot_id}:${rig.plane.clock.now().getTime()}:${"A".repeat(22)}::x` },
  });

const partOf = (bytes: Buffer) => ({ sha256: sha256(bytes), size: bytes.length });
const layersOf = (...layers: Buffer[]): DesiredLayers => ({
  config: partOf(configOf(layers)),
  layers: layers.map((layer) => ({ ...partOf(layer), diff_id: sha256(layer) })),
});

test("stores an uploaded image once, records its layers and returns the artifact unchanged", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const archive = dockerArchive([BASE, OLD]);
  const id = await push(rig, "v1", archive);
  assert.deepEqual((await rig.kept()).keys, [`${rig.org.org_id}/${sha256(archive)}`]);
  assert.deepEqual(await imagesOfRelease(rig, id), [{ platform: "linux/amd64", ...layersOf(BASE, OLD) }]);
  assert.ok(Buffer.from(await (await rig.fetch(id)).arrayBuffer()).equals(archive));
  const part = await rig.fetch(id, { range: "bytes=500-90000" });
  assert.ok(Buffer.from(await part.arrayBuffer()).equals(archive.subarray(500, 90_001)));
  const again = await push(rig, "v1-again", archive);
  assert.deepEqual([(await imagesOfRelease(rig, again))?.length, await countParts(rig)], [1, 3]);
});

test("refuses an invalid image archive in one request and in parts, and keeps nothing", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const broken = Buffer.from(dockerArchive([BASE, OLD]));
  broken[broken.indexOf(OLD)] = 0x21;
  for (const [index, bytes] of [
    HOSTILE,
    broken,
    dockerArchive([BASE]).subarray(0, 10_000),
    tarOf([{ name: "a", content: "no image" }]),
  ].entries()) {
    const { id } = (await rig.create(`bad-${index}`, bytes, IMAGE)).body.data;
    const refused = await rig.put(id, Uint8Array.from(bytes));
    assert.equal(refused.status, 400);
    assert.match(refused.body.error.message, /^the artifact of release bad-\d is not a valid container image: .*Nothing was kept$/);
    const headers = { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0" };
    await fetch(rig.url(id), { method: "POST", headers: { ...headers, "upload-length": String(bytes.length) } });
    const patch = { ...headers, "content-type": "application/offset+octet-stream", "upload-offset": "0" };
    const last = await fetch(rig.url(id), { method: "PATCH", headers: patch, body: Uint8Array.from(bytes) });
    assert.deepEqual([last.status, /Nothing was kept/.test(await last.text())], [400, true]);
    assert.equal((await rig.fetch(id, headers, "HEAD")).status, 404);
    assert.equal(await rig.state(id), "awaiting_upload");
  }
  assert.deepEqual([await rig.kept(), await countParts(rig)], [{ keys: [], staging: [] }, 0]);
  assert.deepEqual(await Array.fromAsync(rig.blobs.listUploads()), []);
});

test("records the layers of an image uploaded in parts", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const archive = tarOf(ociEntries([{ layers: [BASE, OLD] }], true));
  const { id } = (await rig.create("v1", archive, IMAGE)).body.data;
  const headers = { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0" };
  await fetch(rig.url(id), { method: "POST", headers: { ...headers, "upload-length": String(archive.length) } });
  for (const [from, to] of [
    [0, 700],
    [700, archive.length],
  ] as const) {
    const patch = { ...headers, "content-type": "application/offset+octet-stream", "upload-offset": String(from) };
    assert.equal(
      (await fetch(rig.url(id), { method: "PATCH", headers: patch, body: Uint8Array.from(archive.subarray(from, to)) })).status,
      204,
    );
  }
  assert.equal(await rig.state(id), "stored");
  assert.equal((await imagesOfRelease(rig, id))?.[0]?.layers.length, 2);
});

test("stores an image file that is not an archive, without layers", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const id = await push(rig, "v1", Buffer.from("a firmware that only its agent knows"));
  assert.deepEqual([await imagesOfRelease(rig, id), await countParts(rig)], [undefined, 0]);
});

test("validates bytes that were stored as another kind before they are used as an image", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const good = dockerArchive([BASE, OLD]);
  await push(rig, "good-file", good, { kind: "file" });
  await push(rig, "bad-file", HOSTILE, { kind: "file" });
  assert.equal(await countParts(rig), 0);
  const id = await push(rig, "good", good);
  assert.equal((await imagesOfRelease(rig, id))?.[0]?.layers.length, 2);
  const { id: bad } = (await rig.create("bad", HOSTILE, IMAGE)).body.data;
  assert.equal((await rig.put(bad, Uint8Array.from(HOSTILE))).status, 400);
  assert.equal(await rig.state(bad), "awaiting_upload");
  assert.equal((await rig.kept()).keys.length, 2);
});

test("completes an image upload whose layers were stored before a crash, but not its database row", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const archive = dockerArchive([BASE, OLD]);
  const { id } = (await rig.create("v1", archive, IMAGE)).body.data;
  const staged = await rig.blobs.receive(Readable.from([archive]), { max_bytes: archive.length });
  await staged.commit(`${rig.org.org_id}/${sha256(archive)}`);
  assert.deepEqual([await rig.state(id), await countParts(rig)], ["awaiting_upload", 0]);
  assert.equal((await rig.put(id, Uint8Array.from(archive))).status, 200);
  assert.deepEqual([await rig.state(id), await countParts(rig)], ["stored", 3]);
});

test("a robot downloads only the parts of its image, whole or in ranges", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { robot_id, ...place } = await seedRobot(rig.plane, rig.org.org_id);
  const { robot_id: second } = await seedRobot(rig.plane, rig.org.org_id, place);
  const other = await rig.anotherOrg();
  const { robot_id: foreign } = await seedRobot(rig.plane, other.org_id);
  await runs(rig, robot_id, await push(rig, "new", dockerArchive([BASE, NEW])));
  await runs(rig, second, await push(rig, "old", dockerArchive([BASE, OLD])));
  await runs(rig, foreign, await push(rig, "outside", dockerArchive([Buffer.from("outside")]), IMAGE, other.token), other.org_id);
  for (const bytes of [BASE, NEW, configOf([BASE, NEW])]) {
    const whole = await fetchAs(rig, robot_id, sha256(bytes));
    assert.equal(whole.status, 200);
    assert.equal(typeof whole.body === "string" ? whole.body : JSON.stringify(whole.body), bytes.toString());
    assert.deepEqual([whole.headers["content-length"], whole.headers["etag"]], [String(bytes.length), `"${sha256(bytes)}"`]);
    const rest = await fetchAs(rig, robot_id, sha256(bytes), { range: "bytes=5-", "if-range": `"${sha256(bytes)}"` });
    assert.deepEqual([rest.status, rest.body], [206, bytes.subarray(5).toString()]);
    assert.equal((await fetchAs(rig, robot_id, sha256(bytes), { range: `bytes=${bytes.length}-` })).status, 416);
    assert.equal((await fetchAs(rig, foreign, sha256(bytes))).status, 404);
  }
  assert.equal((await fetchAs(rig, second, sha256(BASE))).status, 200);
  assert.equal((await fetchAs(rig, second, sha256(NEW))).status, 404);
  assert.equal((await fetchAs(rig, robot_id, sha256(OLD))).status, 404);
  assert.equal((await fetchAs(rig, robot_id, sha256(Buffer.from("outside")))).status, 404);
});

test("a release of another kind with the same bytes gives no access to image layers", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const archive = dockerArchive([BASE, OLD]);
  await push(rig, "image", archive);
  const { robot_id } = await seedRobot(rig.plane, rig.org.org_id);
  await runs(rig, robot_id, await push(rig, "file", archive, { kind: "file" }));
  assert.equal((await fetchAs(rig, robot_id, sha256(archive))).status, 200);
  assert.equal((await fetchAs(rig, robot_id, sha256(BASE))).status, 404);
});

test("the desired state contains the image layers for the robot's platform", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { db } = rig.plane;
  const { org_id } = rig.org;
  const { robot_id: amd, ...place } = await seedRobot(rig.plane, org_id);
  const { robot_id: arm } = await seedRobot(rig.plane, org_id, place);
  const { robot_id: risc } = await seedRobot(rig.plane, org_id, place);
  for (const [id, arch] of [
    [amd, "x64"],
    [arm, "arm64"],
    [risc, "riscv64"],
  ] as const)
    await db.run(sql`update robot set platform = ${json({ arch })} where org_id = ${org_id} and id = ${id}`);
  const layersSent = async (release_id: string) => {
    for (const robot_id of [amd, arm, risc]) await runs(rig, robot_id, release_id);
    const desired = await desiredOf(db, org_id, [amd, arm, risc]);
    return [amd, arm, risc].map((id) => desired.get(id)?.apps["main"]?.release?.layers);
  };
  const one = layersOf(BASE, OLD);
  assert.deepEqual(await layersSent(await push(rig, "one", dockerArchive([BASE, OLD]))), [one, one, one]);
  const both = tarOf(
    ociEntries([
      { layers: [BASE, OLD], platform: { os: "linux", architecture: "amd64" } },
      { layers: [NEW], platform: { os: "linux", architecture: "arm64" } },
    ]),
  );
  const [of_amd, of_arm, of_risc] = await layersSent(await push(rig, "both", both));
  assert.deepEqual(
    of_amd?.layers.map(({ diff_id }) => diff_id),
    [BASE, OLD].map(sha256),
  );
  assert.deepEqual(
    of_arm?.layers.map(({ diff_id }) => diff_id),
    [sha256(NEW)],
  );
  assert.equal(of_risc, null);
  assert.deepEqual(await layersSent(await push(rig, "text", Buffer.from("no archive"))), [null, null, null]);
  assert.deepEqual(await layersSent(await push(rig, "file", dockerArchive([BASE]), { kind: "file" })), [undefined, undefined, undefined]);
});

test("a deployment plan shows the bytes to send to each robot, without layers that it has", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { db } = rig.plane;
  const { org_id, token } = rig.org;
  const { robot_id: has, ...place } = await seedRobot(rig.plane, org_id);
  const { robot_id: empty } = await seedRobot(rig.plane, org_id, place);
  const old = await push(rig, "old", dockerArchive([BASE, OLD]));
  await db.run(
    sql`insert into robot_app (org_id, robot_id, app, current_release_id, updated_at) values (${org_id}, ${has}, 'main', ${old}, ${rig.plane.clock.now()})`,
  );
  const plan = async (release: string) => {
    const body = { release, fleet_id: place.fleet_id, dry_run: true };
    const answer = await rig.call<{ data: { bytes_to_send: number; robots: { robot_id: string; bytes_to_send: number }[] } }>(
      "POST",
      "/api/deployments",
      { token, body, headers: { "idempotency-key": release } },
    );
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { bytes_to_send, robots } = answer.body.data;
    return [bytes_to_send, ...[has, empty].map((id) => robots.find(({ robot_id }) => robot_id === id)?.bytes_to_send)];
  };
  await push(rig, "new", dockerArchive([BASE, NEW, NEW]));
  const fresh = NEW.length + configOf([BASE, NEW, NEW]).length;
  assert.deepEqual(await plan("new"), [2 * fresh + BASE.length, fresh, fresh + BASE.length]);
  await push(rig, "file", BASE, { kind: "file" });
  assert.deepEqual(await plan("file"), [2 * BASE.length, BASE.length, BASE.length]);
  await rig.create("far", Buffer.from("x"), { ...IMAGE, image: `ghcr.io/a@sha256:${"a".repeat(64)}` });
  assert.deepEqual(await plan("far"), [0, 0, 0]);
});

test("deletes layers with their image, unless another image contains them", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { robot_id } = await seedRobot(rig.plane, rig.org.org_id);
  const old = await push(rig, "old", dockerArchive([BASE, OLD]));
  await runs(rig, robot_id, await push(rig, "new", dockerArchive([BASE, NEW])));
  await rig.call("DELETE", `/api/releases/${old}`, { token: rig.org.token });
  assert.equal(await countParts(rig), 6);
  const sweep = startBlobSweep(rig.plane);
  await rig.clock.advance({ hours: 25 });
  sweep.wake();
  await sweep.settled();
  await sweep.stop();
  assert.deepEqual([await countParts(rig), (await rig.kept()).keys.length], [3, 1]);
  const { status, body } = await fetchAs(rig, robot_id, sha256(BASE));
  assert.deepEqual([status, createHash("sha256").update(String(body)).digest("hex")], [200, sha256(BASE)]);
});
