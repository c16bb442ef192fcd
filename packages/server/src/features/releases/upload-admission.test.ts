import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Limits } from "../../config.ts";
import { sql } from "../../kernel/sql.ts";
import { type One, sha256, startReleaseRig } from "./testing/release-rig.ts";
import { startUploadExpiry } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const MIB = 1024 ** 2;
const DISK = 1_000 * MIB;

/** Starts a server with simulated free disk space and two orgs. */
async function startShared(limits: Partial<Limits> = {}) {
  const rig = await startReleaseRig({ free_disk_bytes_min: 0, ...limits });
  const disk = { free: DISK };
  rig.blobs.freeBytes = () => Promise.resolve(disk.free);
  const another = await rig.anotherOrg();
  let tags = 0;
  const announce = async (token: string, size: number) => {
    const body = { tag: `v${(tags += 1)}`, kind: "file", artifact_sha256: sha256(randomBytes(8)), artifact_size: size };
    return (await rig.call<One>("POST", "/api/releases", { token, body })).body.data.id;
  };
  const send = (method: string, token: string, id: string, headers: Record<string, string>, body?: Uint8Array<ArrayBuffer>) =>
    fetch(rig.url(id), {
      method,
      headers: { authorization: `Bearer ${token}`, "tus-resumable": "1.0.0", ...headers },
      ...(body && { body }),
    });
  const start = async (token: string, size: number) => {
    const id = await announce(token, size);
    return { id, answer: await send("POST", token, id, { "upload-length": String(size) }) };
  };
  const patch = (token: string, id: string, offset: number, bytes: Uint8Array<ArrayBuffer>) =>
    send("PATCH", token, id, { "upload-offset": String(offset), "content-type": "application/offset+octet-stream" }, bytes);
  const look = (token: string, id: string) => send("HEAD", token, id, {});
  return { ...rig, disk, mine: rig.org.token, other_token: another.token, start, patch, look };
}

test("announced uploads of one org without any byte do not prevent another org from uploading", TIMEOUT, async () => {
  await using it = await startShared();
  const statuses = [];
  for (let i = 0; i < 20; i += 1) statuses.push((await it.start(it.mine, 100 * MIB)).answer.status);
  assert.deepEqual([...new Set(statuses)].toSorted(), [201, 413], "it has a share of the disk, and no more");
  assert.equal(statuses.filter((status) => status === 201).length, 5);
  const { answer } = await it.start(it.other_token, 400 * MIB);
  assert.equal(answer.status, 201, await answer.text());
  // Small uploads are accepted even if little space is left.
  it.disk.free = 2 * MIB;
  const { answer: small } = await it.start((await it.anotherOrg()).token, MIB);
  assert.equal(small.status, 201, await small.text());
});

test("the only org of a server may use the whole disk for one upload", TIMEOUT, async () => {
  await using it = await startShared();
  await it.plane.db.run(sql`update org set status = 'suspended' where id <> ${it.org.org_id}`);
  assert.equal((await it.start(it.mine, 900 * MIB)).answer.status, 201);
  assert.equal((await it.start(it.mine, 200 * MIB)).answer.status, 413);
});

test("returns 429 when an org has too many open uploads, without effect on other orgs", TIMEOUT, async () => {
  await using it = await startShared({ uploads_per_org_max: 3 });
  const started = [];
  for (let i = 0; i < 3; i += 1) started.push((await it.start(it.mine, MIB)).id);
  const { answer } = await it.start(it.mine, MIB);
  assert.deepEqual([answer.status, answer.headers.get("retry-after")], [429, "60"]);
  assert.match(await answer.text(), /3 open uploads; the maximum is 3 \(uploads_per_org_max\)/);
  assert.equal((await it.start(it.other_token, MIB)).answer.status, 201);
});

test("keeps received bytes when the disk is full, and continues the upload when there is space", TIMEOUT, async () => {
  await using it = await startShared({ free_disk_bytes_min: MIB });
  const bytes = Uint8Array.from(randomBytes(40 * MIB));
  const { id } = await it.start(it.mine, bytes.length + 1);

  let looks = 0;
  // The disk is full at the second check during the upload.
  it.blobs.freeBytes = () => Promise.resolve((looks += 1) > 1 ? 0 : DISK);
  const refused = await it.patch(it.mine, id, 0, bytes).catch((error: unknown) => error as Error);
  // The server may close the connection before a client that still sends has read the response.
  if (refused instanceof Response) assert.equal(refused.status, 503);
  it.blobs.freeBytes = () => Promise.resolve(0);
  let looked = await it.look(it.mine, id);
  await until("the part to end", async () => (looked = await it.look(it.mine, id)).status !== 423);
  const kept = Number(looked.headers.get("upload-offset"));
  assert.ok(kept >= 16 * MIB && kept < bytes.length, String(kept));
  const full = await it.patch(it.mine, id, kept, bytes.slice(kept, kept + 10));
  assert.equal(full.status, 503);
  assert.match(await full.text(), new RegExp(`disk is full, ${kept} bytes of the upload are kept`));
  it.blobs.freeBytes = () => Promise.resolve(DISK);
  assert.equal((await it.patch(it.mine, id, kept, bytes.slice(kept))).status, 204);
});

test("only new bytes extend the expiry of an upload", TIMEOUT, async () => {
  await using it = await startShared();
  const { id } = await it.start(it.mine, MIB);
  const expiry = startUploadExpiry(it.plane);
  assert.equal((await it.patch(it.mine, id, 0, new Uint8Array(10))).status, 204);
  await it.clock.advance({ minutes: 9 });
  assert.equal((await it.patch(it.mine, id, 10, new Uint8Array(10))).status, 204);
  await it.clock.advance({ minutes: 9 });
  assert.equal((await it.look(it.mine, id)).headers.get("upload-offset"), "20");
  const again = () =>
    fetch(it.url(id), {
      method: "POST",
      headers: { authorization: `Bearer ${it.mine}`, "tus-resumable": "1.0.0", "upload-length": String(MIB) },
    });
  assert.equal((await again()).headers.get("upload-offset"), "20");
  await it.clock.advance({ minutes: 3 });
  await expiry.settled();
  assert.equal((await it.look(it.mine, id)).status, 404);
  const restarted = await again();
  assert.deepEqual([restarted.status, restarted.headers.get("upload-offset")], [201, "0"]);
  await expiry.stop();
});
