import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type ClientRequest, request } from "node:http";
import { Readable } from "node:stream";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { Upload } from "tus-js-client";
import { int, jsonb, nullable, row, sql, text } from "../../kernel/sql.ts";
import { startBlobSweep, startUploadExpiry } from "./index.ts";
import { sha256, startReleaseRig } from "./testing/release-rig.ts";

const TIMEOUT = { timeout: 120_000 };
const SIZE = 3_000_000;
const MIB = 1024 * 1024;
type Rig = Awaited<ReturnType<typeof startReleaseRig>>;

/** Creates a release of random bytes, and functions for the requests of the tus protocol. */
async function makeUpload(rig: Rig, size = SIZE, tag = `v${randomBytes(4).toString("hex")}`) {
  const bytes = randomBytes(size);
  const { id } = (await rig.create(tag, bytes)).body.data;
  const headers = { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0" };
  const call = async (method: string, more: Record<string, string> = {}, body?: Uint8Array<ArrayBuffer>) => {
    const answer = await fetch(rig.url(id), { method, headers: { ...headers, ...more }, ...(body === undefined ? {} : { body }) });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, offset: Number(answer.headers.get("upload-offset") ?? "NaN"), text };
  };
  const patchHeaders = (offset: number) => ({ "content-type": "application/offset+octet-stream", "upload-offset": String(offset) });
  return {
    id,
    bytes,
    call,
    start: (length = size) => call("POST", { "upload-length": String(length) }),
    look: () => call("HEAD"),
    patch: (offset: number, end = size, from = bytes) => call("PATCH", patchHeaders(offset), Uint8Array.from(from.subarray(offset, end))),
    /** Opens a PATCH request whose body stays open. */
    open: (offset: number): ClientRequest => {
      const open = request(rig.url(id), {
        method: "PATCH",
        headers: { ...headers, ...patchHeaders(offset), "content-length": String(size - offset) },
      });
      open.on("error", () => {});
      open.flushHeaders();
      return open;
    },
    kept: () => rig.blobs.uploaded(`${rig.org.org_id}/${id}`),
  };
}

/** Returns action, status and data of the audit entries about a release, except its creation. */
async function auditOf(rig: Rig, id: string): Promise<unknown[][]> {
  const shape = row({ action: text, status: nullable(int), data: jsonb<unknown>() });
  const entries = await rig.plane.db.many(sql(shape)`
    select ${shape} from audit_entry where org_id = ${rig.org.org_id} and object_id = ${id} order by id`);
  return entries.filter(({ action }) => action !== "createRelease").map(({ action, status, data }) => [action, status, data]);
}

const uploadKeys = async (rig: Rig): Promise<string[]> => (await Array.fromAsync(rig.blobs.listUploads())).map(({ key }) => key);

test("tus-js-client uploads in parts, and resumes after it was stopped", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id, bytes } = await makeUpload(rig);
  const common = {
    endpoint: rig.url(id),
    headers: { authorization: `Bearer ${rig.org.token}` },
    chunkSize: MIB,
    retryDelays: null,
    uploadSize: SIZE,
  };
  const first = new Upload(bytes, { ...common });
  await new Promise<void>((resolve, reject) => {
    first.options.onError = reject;
    first.options.onChunkComplete = () => void first.abort().then(resolve);
    first.start();
  });
  assert.equal(first.url, rig.url(id));
  const sent: number[] = [];
  await new Promise<void>((resolve, reject) => {
    const second = new Upload(bytes, {
      ...common,
      uploadUrl: first.url,
      onError: reject,
      onSuccess: () => resolve(),
      onChunkComplete: (size) => void sent.push(size),
    });
    second.start();
  });
  assert.deepEqual(sent, [MIB, SIZE - 2 * MIB]);
  assert.equal(await rig.state(id), "stored");
  assert.deepEqual(Buffer.from(await (await rig.fetch(id)).arrayBuffer()), bytes);
  assert.deepEqual(await uploadKeys(rig), []);
});

test("audits the start and end of an upload and refused parts, but no successful part", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const audited = (id: string) => auditOf(rig, id);
  const bytes = SIZE;
  const upload = await makeUpload(rig);
  assert.equal((await upload.start()).status, 201);
  for (let at = 0; at < SIZE - 100_000; at += 100_000) assert.equal((await upload.patch(at, at + 100_000)).status, 204);
  // A client that reconnects starts the upload again and gets its offset.
  assert.equal((await upload.start()).status, 201);
  assert.equal((await upload.patch(0)).status, 409);
  assert.equal((await upload.patch(SIZE - 100_000)).status, 204);
  assert.equal((await upload.start()).status, 201);
  assert.deepEqual(await audited(upload.id), [
    ["startUpload", 201, { upload: "begun", bytes }],
    ["continueUpload", 409, {}],
    ["continueUpload", 204, { upload: "finished", bytes }],
  ]);

  const other = await makeUpload(rig);
  await other.start();
  assert.equal((await other.patch(0, SIZE, Buffer.alloc(SIZE))).status, 400);
  assert.deepEqual((await audited(other.id)).at(-1), ["continueUpload", 400, { upload: "dropped", bytes }]);

  const given_up = await makeUpload(rig);
  await given_up.start();
  assert.equal((await given_up.call("DELETE")).status, 204);
  assert.deepEqual((await audited(given_up.id)).at(-1)?.slice(0, 2), ["endUpload", 204]);

  // Reads are not audited, whether they succeed or fail.
  assert.equal((await rig.fetch("rel_none")).status, 404);
  assert.deepEqual(await audited("rel_none"), []);
});

test("keeps the received bytes of an interrupted part, so that the rest completes the upload", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const upload = await makeUpload(rig);
  const started = await upload.start();
  assert.deepEqual(
    [started.status, started.offset, started.headers.get("location"), started.headers.get("tus-resumable")],
    [201, 0, `/api/releases/${upload.id}/artifact`, "1.0.0"],
  );
  assert.ok(Date.parse(started.headers.get("upload-expires") ?? "") > 0);
  for (const end of [1_000_000, 2_000_001]) {
    const { offset } = await upload.look();
    const cut = upload.open(offset);
    cut.write(upload.bytes.subarray(offset, end));
    await until("the part to be written", async () => (await upload.kept()) === end);
    cut.destroy();
    await until("the cut to be noticed", async () => (await upload.look()).status === 200);
    assert.equal((await upload.look()).offset, end);
  }
  const done = await upload.patch(2_000_001);
  assert.deepEqual([done.status, done.offset], [204, SIZE]);
  assert.equal(await rig.state(upload.id), "stored");
  assert.deepEqual(Buffer.from(await (await rig.fetch(upload.id)).arrayBuffer()), upload.bytes);
  const { status, offset } = await upload.look();
  assert.deepEqual([status, offset], [200, SIZE]);
  assert.deepEqual([(await upload.start()).status, (await upload.start()).offset], [201, SIZE]);
});

test("a restarted server continues an upload, and checks the digest of the whole artifact", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const [good, bad] = [await makeUpload(rig), await makeUpload(rig)];
  for (const upload of [good, bad]) {
    await upload.start();
    await upload.patch(0, MIB, upload === bad ? randomBytes(SIZE) : upload.bytes);
  }
  await rig.restartBlobs();
  for (const upload of [good, bad]) assert.equal((await upload.look()).offset, MIB);
  assert.equal((await good.patch(MIB)).status, 204);
  assert.equal(await rig.state(good.id), "stored");
  const refused = await bad.patch(MIB);
  assert.deepEqual([refused.status, refused.headers.get("tus-resumable")], [400, "1.0.0"]);
  assert.match(refused.text, /SHA-256.*Nothing was kept/);
  assert.equal(await rig.state(bad.id), "awaiting_upload");
  assert.equal((await bad.look()).status, 404);
  assert.deepEqual(await uploadKeys(rig), []);
});

test("completes an upload at the next request if the server crashed after the last byte", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const [all, named] = [await makeUpload(rig), await makeUpload(rig)];
  for (const { id, start, bytes } of [all, named]) {
    await start();
    const key = `${rig.org.org_id}/${id}`;
    await rig.blobs.append(key, Readable.from([bytes]), { offset: 0, max_bytes: SIZE });
  }
  const completed = await rig.blobs.complete(`${rig.org.org_id}/${named.id}`, { size: SIZE, sha256: sha256(named.bytes) });
  await completed.commit(`${rig.org.org_id}/${sha256(named.bytes)}`);
  for (const upload of [all, named]) {
    const { status, offset } = await upload.look();
    assert.deepEqual([status, offset], [200, SIZE]);
    assert.equal(await rig.state(upload.id), "stored");
    assert.deepEqual(Buffer.from(await (await rig.fetch(upload.id)).arrayBuffer()), upload.bytes);
    assert.deepEqual((await auditOf(rig, upload.id)).at(-1), ["getReleaseArtifact", 200, { upload: "finished", bytes: SIZE }]);
  }
});

test("returns 423 while another request uploads, unless that request is silent", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const upload = await makeUpload(rig);
  await upload.start();
  const first = upload.open(0);
  first.write(upload.bytes.subarray(0, MIB));
  await until("the first bytes to be written", async () => (await upload.kept()) === MIB);
  const refused = await upload.look();
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [423, "1"]);
  assert.equal((await upload.patch(MIB)).status, 423);
  assert.equal((await upload.call("DELETE")).status, 423);
  await rig.clock.advance({ seconds: 6 });
  assert.equal((await upload.look()).offset, MIB);
  const [one, two] = await Promise.all([upload.patch(MIB), upload.patch(MIB)]);
  assert.deepEqual(
    [one.status, two.status].toSorted(),
    one.status === 204 && two.status === 204 ? [] : [204, Math.max(one.status, two.status)],
  );
  assert.ok([404, 409, 423].includes(Math.max(one.status, two.status)), `${one.status} ${two.status}`);
  assert.deepEqual(Buffer.from(await (await rig.fetch(upload.id)).arrayBuffer()), upload.bytes);
  first.destroy();
});

test("refuses upload requests with a wrong protocol version, length, offset or content type", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const upload = await makeUpload(rig);
  const { call } = upload;
  assert.equal((await upload.look()).status, 404);
  assert.equal((await upload.patch(0)).status, 404);
  assert.equal((await call("DELETE")).status, 404);
  assert.equal((await upload.start(SIZE - 1)).status, 400);
  assert.equal((await call("POST")).status, 400);
  assert.equal((await call("POST", { "upload-defer-length": "1" })).status, 400);
  const other = await call("POST", { "tus-resumable": "0.2.2", "upload-length": String(SIZE) });
  assert.deepEqual([other.status, other.headers.get("tus-version")], [412, "1.0.0"]);
  const without = await fetch(rig.url(upload.id), { method: "POST", headers: { authorization: `Bearer ${rig.org.token}` } });
  assert.equal(without.status, 412);
  await upload.start();
  const wrong_offset = await upload.patch(5);
  assert.deepEqual([wrong_offset.status, JSON.parse(wrong_offset.text).error.code], [409, "conflict"]);
  assert.equal((await call("PATCH", { "content-type": "text/plain", "upload-offset": "0" }, new Uint8Array(1))).status, 415);
  const type = { "content-type": "application/offset+octet-stream" };
  assert.equal((await call("PATCH", { ...type, "upload-offset": "-1" }, new Uint8Array(1))).status, 400);
  assert.equal((await call("PATCH", { ...type, "upload-offset": "0" }, new Uint8Array(SIZE + 1))).status, 400);
  assert.equal((await upload.look()).offset, 0);
  const external = (await rig.create("image", Buffer.alloc(0), { kind: "container_image", image: `r/x@sha256:${"a".repeat(64)}` })).body
    .data.id;
  const refused = await fetch(rig.url(external), {
    method: "POST",
    headers: { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0", "upload-length": "0" },
  });
  assert.equal(refused.status, 409);
});

test("DELETE discards an upload, which can then start again", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const upload = await makeUpload(rig);
  await upload.start();
  await upload.patch(0, 10);
  assert.equal((await upload.call("DELETE")).status, 204);
  assert.deepEqual(await uploadKeys(rig), []);
  assert.equal((await upload.look()).status, 404);
  assert.deepEqual([(await upload.start()).offset, (await upload.patch(0)).status], [0, 204]);
  const empty = await makeUpload(rig, 0);
  assert.equal((await empty.start()).status, 201);
  assert.equal(await rig.state(empty.id), "stored");
});

test("concurrent uploads reserve no more than the org's quota and the free disk space", TIMEOUT, async () => {
  await using rig = await startReleaseRig({ artifact_bytes_max: 7 * 1_000 + 999 });
  const uploads = await Promise.all(Array.from({ length: 20 }, () => makeUpload(rig, 1_000)));
  const answers = await Promise.all(uploads.map((upload) => upload.start()));
  assert.equal(answers.filter(({ status }) => status === 201).length, 7);
  assert.equal(answers.filter(({ status }) => status === 413).length, 13);
  const full = await makeUpload(rig, 1_000);
  assert.equal((await rig.put(full.id, Uint8Array.from(full.bytes))).status, 413);
  // All seven accepted uploads succeed, and their reservations become used space.
  for (const upload of uploads) if ((await upload.look()).status === 200) assert.equal((await upload.patch(0)).status, 204);
  assert.equal((await full.start()).status, 413);
  assert.equal((await rig.kept()).keys.length, 7);

  Object.assign(rig.plane.settings.limits, { artifact_bytes_max: 2 ** 40, free_disk_bytes_min: 2 ** 62 });
  assert.equal((await full.start()).status, 413);
  Object.assign(rig.plane.settings.limits, { free_disk_bytes_min: 0 });
  assert.equal((await full.start()).status, 201);
});

test("the 413 error states the limit, the used space and what will be deleted automatically", TIMEOUT, async () => {
  await using rig = await startReleaseRig({ artifact_bytes_max: 4 * MIB });
  const [stored, deleted, waiting, refused] = [
    await makeUpload(rig, MIB),
    await makeUpload(rig, 1_000),
    await makeUpload(rig, 2 * MIB),
    await makeUpload(rig, 3 * MIB),
  ];
  for (const upload of [stored, deleted]) {
    await upload.start();
    assert.equal((await upload.patch(0)).status, 204);
  }
  await rig.call("DELETE", `/api/releases/${deleted.id}`, { token: rig.org.token });
  assert.equal((await waiting.start()).status, 201);
  const { status, text: answer } = await refused.start();
  const { message } = JSON.parse(answer).error as { message: string };
  assert.equal(status, 413);
  assert.equal(
    message,
    "3145728 bytes (3.0 MiB) more would exceed the 4194304 bytes (4.0 MiB) (artifact_bytes_max) that an org may use for artifacts: " +
      "1049576 bytes (1.0 MiB) are stored, 1000 bytes of them by releases that were deleted less than a day ago, " +
      "2097152 bytes (2.0 MiB) are reserved for open uploads",
  );
  Object.assign(rig.plane.settings.limits, { artifact_bytes_max: 2 ** 40, free_disk_bytes_min: 2 ** 62 });
  assert.match((await refused.start()).text, /no space for 3145728 bytes \(3\.0 MiB\) more: free_disk_bytes_min must stay free/);
});

test("concurrent PUT uploads reserve no more than the quota, and those that fit succeed", TIMEOUT, async () => {
  await using rig = await startReleaseRig({ artifact_bytes_max: 3_000 });
  const uploads = await Promise.all(Array.from({ length: 10 }, () => makeUpload(rig, 1_000)));
  const answers = await Promise.all(uploads.map(({ id, bytes }) => rig.put(id, Uint8Array.from(bytes))));
  assert.deepEqual(
    [200, 413].map((status) => answers.filter((answer) => answer.status === status).length),
    [3, 7],
  );
});

test("deletes an upload after ten minutes without new bytes, unless a request is uploading", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const [stale, fresh, open] = [await makeUpload(rig), await makeUpload(rig), await makeUpload(rig)];
  for (const upload of [stale, fresh, open]) {
    await upload.start();
    await upload.patch(0, 10);
  }
  const sweep = startBlobSweep(rig.plane);
  await rig.clock.advance({ minutes: 9 });
  await fresh.patch(10, 20);
  await rig.clock.advance({ seconds: 56 });
  const held = open.open(10);
  held.write("x");
  await until("the byte to be written", async () => (await open.kept()) === 11);
  // More than ten minutes, but not so long that the upload is aborted as too slow.
  await rig.clock.advance({ seconds: 8 });
  const expiry = startUploadExpiry(rig.plane);
  expiry.wake();
  await expiry.settled();
  await expiry.stop();
  assert.deepEqual((await uploadKeys(rig)).toSorted(), [fresh, open].map(({ id }) => `${rig.org.org_id}/${id}`).toSorted());
  assert.equal((await stale.look()).status, 404);
  assert.equal((await fresh.look()).offset, 20);
  // The partial upload of a deleted release is deleted too.
  await rig.call("DELETE", `/api/releases/${fresh.id}`, { token: rig.org.token });
  sweep.wake();
  await sweep.settled();
  assert.deepEqual(await uploadKeys(rig), [`${rig.org.org_id}/${open.id}`]);
  held.destroy();
  await sweep.stop();
});

test("a request for an upload waits while the expiry checks that upload", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const [upload, other] = [await makeUpload(rig), await makeUpload(rig)];
  await upload.start();
  await upload.patch(0, 10);
  await rig.clock.advance({ minutes: 11 });
  await other.start();
  const sweep = startUploadExpiry(rig.plane);
  // A client continues the upload when the expiry would delete it: the expiry waits for the row lock.
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const lock = rig.plane.db.transaction(async (tx) => {
    const later = new Date(rig.clock.now().getTime() + 3_600_000);
    await tx.run(sql`update artifact_upload set expires_at = ${later} where org_id = ${rig.org.org_id} and release_id = ${upload.id}`);
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  sweep.wake();
  const waiting = row({ waiting: int });
  await until("the sweep to wait for a row", async () => {
    const found = await rig.plane.db.one(sql(waiting)`
      select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
    return found.waiting > 0;
  });
  const looked = upload.look();
  // When later requests have been answered, this request is waiting for the expiry.
  for (let n = 0; n < 3; n += 1) assert.equal((await other.look()).status, 200);
  held.resolve();
  assert.deepEqual(await looked.then(({ status, offset }) => [status, offset]), [200, 10]);
  await lock;
  await sweep.stop();
});

test("keeps a blob that a new release uses, even during its deletion", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { token } = rig.org;
  const sweep = startBlobSweep(rig.plane);
  for (let round = 0; round < 10; round += 1) {
    const bytes = randomBytes(100);
    const { id } = (await rig.create(`old${round}`, bytes)).body.data;
    await rig.put(id, Uint8Array.from(bytes));
    await rig.call("DELETE", `/api/releases/${id}`, { token });
    await rig.clock.advance({ hours: 25 });
    sweep.wake();
    const [, made] = await Promise.all([sweep.settled(), rig.create(`new${round}`, bytes)]);
    const there = (await rig.blobs.stat(`${rig.org.org_id}/${sha256(bytes)}`)) !== undefined;
    await rig.clock.advance({ hours: 49 });
    sweep.wake();
    await sweep.settled();
    // If the sweep deleted the bytes before the release existed, they are uploaded again. Otherwise they are kept as long as the release.
    assert.equal((await rig.blobs.stat(`${rig.org.org_id}/${sha256(bytes)}`)) !== undefined, there);
    assert.equal((await rig.put(made.body.data.id, Uint8Array.from(bytes))).status, 200);
    assert.equal(await (await rig.fetch(made.body.data.id)).arrayBuffer().then((all) => sha256(Buffer.from(all))), sha256(bytes));
  }
  await sweep.stop();
});

test("returns 404 for an upload of another org", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const upload = await makeUpload(rig);
  await upload.start();
  const other = await rig.anotherOrg();
  for (const method of ["HEAD", "POST", "PATCH", "DELETE"]) {
    const answer = await fetch(rig.url(upload.id), {
      method,
      headers: { authorization: `Bearer ${other.token}`, "tus-resumable": "1.0.0", "upload-length": String(SIZE), "upload-offset": "0" },
    });
    assert.equal(answer.status, 404, method);
    await answer.arrayBuffer();
  }
});
