import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { until } from "@roamfleet/clock/testing";
import { LIMIT_DEFAULTS } from "../../config.ts";
import { sha256, startReleaseRig } from "./testing/release-rig.ts";

const TIMEOUT = { timeout: 120_000 };
const BYTES = Buffer.from("the bytes of the release");
const NOTHING = { keys: [], staging: [] };
const run = promisify(execFile);

const streamOf = (...parts: Uint8Array[]) => new Blob(parts.map((part) => Uint8Array.from(part))).stream();

test("stores an artifact, returns it unchanged and ignores later uploads of it", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const big = Buffer.alloc(3_000_000, "0123456789");
  const { id } = (await rig.create("v1", big)).body.data;
  assert.equal((await rig.fetch(id)).status, 404);
  const { status, body } = await rig.put(id, streamOf(big.subarray(0, 10), big.subarray(10)));
  assert.deepEqual([status, body.data.artifact_state], [200, "stored"]);
  assert.deepEqual(await rig.kept(), { keys: [`${rig.org.org_id}/${sha256(big)}`], staging: [] });
  assert.deepEqual(Buffer.from(await (await rig.fetch(id)).arrayBuffer()), big);

  const second = (await rig.create("v2", big)).body.data.id;
  const wrong = Buffer.alloc(big.length, "x");
  for (const stored of [id, second]) assert.equal((await rig.put(stored, wrong)).status, 200);
  assert.equal(await rig.state(second), "stored");
  assert.deepEqual(Buffer.from(await (await rig.fetch(second)).arrayBuffer()), big);
});

test("stores an empty artifact", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id } = (await rig.create("v1", Buffer.alloc(0))).body.data;
  assert.equal((await rig.put(id, Buffer.alloc(0))).status, 200);
  const answer = await rig.fetch(id);
  assert.deepEqual([answer.status, (await answer.arrayBuffer()).byteLength], [200, 0]);
});

test("returns 400 for an upload with another length or other bytes, and keeps nothing", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id } = (await rig.create("v1", BYTES)).body.data;
  const cases: [string, NonNullable<RequestInit["body"]>, RegExp][] = [
    ["another content-length", Uint8Array.from(BYTES.subarray(1)), /artifact_size/],
    ["other bytes", Uint8Array.from(BYTES.map((byte) => byte ^ 1)), /has SHA-256 /],
    ["too many", streamOf(BYTES, BYTES), /more than/],
    ["too few", streamOf(BYTES.subarray(1)), /23 bytes/],
  ];
  for (const [what, body, message] of cases) {
    const answer = await rig.put(id, body);
    assert.deepEqual([answer.status, answer.body.error.code], [400, "bad_request"], what);
    assert.match(answer.body.error.message, message, what);
    assert.deepEqual(await rig.kept(), NOTHING, what);
  }
  assert.equal(await rig.state(id), "awaiting_upload");
  assert.equal((await rig.put(id, BYTES)).status, 200);
});

test("keeps nothing of an aborted upload, and accepts a new one", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id } = (await rig.create("v1", BYTES)).body.data;
  const { socket } = await rig.open(id, BYTES.length);
  socket.write(BYTES.subarray(0, 5));
  await until("the first bytes to be written", async () => (await rig.kept()).staging.length === 1);
  socket.destroy();
  await until("the partial file to be deleted", async () => (await rig.kept()).staging.length === 0);
  assert.equal(await rig.state(id), "awaiting_upload");
  assert.equal((await rig.put(id, BYTES)).status, 200);
});

test("concurrent uploads of one release all succeed, and one blob is kept", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id } = (await rig.create("v1", BYTES)).body.data;
  const answers = await Promise.all(Array.from({ length: 5 }, () => rig.put(id, BYTES)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  const { keys, staging } = await rig.kept();
  assert.deepEqual([keys.length, staging], [1, []]);
});

test("returns 413 before the first byte when the org's quota or the disk is full", TIMEOUT, async () => {
  await using rig = await startReleaseRig({ artifact_bytes_max: 2 * BYTES.length - 1 });
  const { id } = (await rig.create("v1", BYTES)).body.data;
  assert.equal((await rig.put(id, BYTES)).status, 200);
  const other = Buffer.from(BYTES.toReversed());
  const full = (await rig.create("v2", other)).body.data.id;
  const { socket, received } = await rig.open(full, other.length, "expect: 100-continue\r\n");
  await once(socket, "close");
  assert.match(received(), /^HTTP\/1\.1 413 [\s\S]*"http_error"/);
  assert.equal((await rig.put(full, other)).status, 413);

  Object.assign(rig.plane.settings.limits, { artifact_bytes_max: LIMIT_DEFAULTS.artifact_bytes_max, free_disk_bytes_min: 2 ** 62 });
  assert.equal((await rig.put(full, other)).status, 413);
  Object.assign(rig.plane.settings.limits, { free_disk_bytes_min: 0 });
  assert.equal((await rig.put(full, other)).status, 200);
});

test("sends 100 Continue only if the upload is accepted", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id } = (await rig.create("v1", BYTES)).body.data;
  const wanted = await rig.open(id, BYTES.length, "expect: 100-continue\r\n");
  await until("100 Continue", () => wanted.received() === "HTTP/1.1 100 Continue\r\n\r\n");
  wanted.socket.write(BYTES);
  await until("the answer", () => /HTTP\/1\.1 200 [\s\S]*"stored"/.test(wanted.received()));
  wanted.socket.destroy();
  for (const [release_id, length, status] of [
    [id, BYTES.length, 200],
    ["rel_none", 1, 404],
    [(await rig.create("v2", Buffer.from("x"))).body.data.id, 2, 400],
  ] as const) {
    const { socket, received } = await rig.open(release_id, length, "expect: 100-continue\r\n");
    await once(socket, "close");
    assert.match(received(), new RegExp(`^HTTP/1\\.1 ${status} `));
  }
});

test("curl -T uploads a file, and fails if the file differs from the release", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-curl-"));
  try {
    const file = join(directory, "artifact");
    const bytes = Buffer.alloc(20_000_000, "robot");
    await writeFile(file, bytes);
    const { id } = (await rig.create("v1", bytes)).body.data;
    const other = (await rig.create("v2", Buffer.alloc(bytes.length, "x"))).body.data.id;
    const curl = async (url: string) =>
      (
        await run("curl", [
          "--silent",
          "--show-error",
          "--output",
          "/dev/null",
          "--write-out",
          "%{http_code}",
          "-T",
          file,
          "-H",
          `Authorization: Bearer ${rig.org.token}`,
          url,
        ])
      ).stdout;
    assert.equal(await curl(rig.url(id)), "200");
    assert.equal(await rig.state(id), "stored");
    assert.equal(await curl(rig.url(id)), "200");
    assert.equal(await curl(rig.url(other)), "400");
    assert.equal((await rig.kept()).keys.length, 1);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("artifact downloads support ranges, If-Range and HEAD", TIMEOUT, async () => {
  await using rig = await startReleaseRig();
  const { id } = (await rig.create("v1", BYTES)).body.data;
  await rig.put(id, BYTES);
  const etag = `"${sha256(BYTES)}"`;
  const read = async (headers: Record<string, string>, method = "GET") => {
    const answer = await rig.fetch(id, headers, method);
    return [answer.status, await answer.text(), answer.headers.get("content-range"), answer.headers.get("content-length")];
  };
  const whole = [200, BYTES.toString(), null, "24"];
  assert.deepEqual(await read({}), whole);
  assert.deepEqual(await read({ range: "bytes=4-8" }), [206, "bytes", "bytes 4-8/24", "5"]);
  assert.deepEqual(await read({ range: "bytes=-7", "if-range": etag }), [206, "release", "bytes 17-23/24", "7"]);
  assert.deepEqual(await read({ range: "bytes=4-8", "if-range": '"other"' }), whole);
  assert.deepEqual(await read({ range: "bytes=0-1,3-4" }), whole);
  const past = await rig.fetch(id, { range: "bytes=24-" });
  assert.deepEqual(
    [past.status, past.headers.get("content-range"), ((await past.json()) as { error: { code: string } }).error.code],
    [416, "bytes */24", "http_error"],
  );
  assert.deepEqual(await read({}, "HEAD"), [200, "", null, "24"]);
  assert.deepEqual(await read({ range: "bytes=4-8" }, "HEAD"), [206, "", "bytes 4-8/24", "5"]);
  const { headers } = await rig.fetch(id);
  assert.deepEqual(
    [headers.get("etag"), headers.get("accept-ranges"), headers.get("content-type")],
    [etag, "bytes", "application/octet-stream"],
  );
});
