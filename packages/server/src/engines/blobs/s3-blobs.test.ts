import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import path from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, before, beforeEach, test } from "node:test";
import { inspect } from "node:util";
import { type Clock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { Blobs } from "./blobs.ts";
import { blobsSuite } from "./testing/blobs-suite.ts";
import { s3Blobs, sweepLeftovers } from "./s3-blobs.ts";
import { forEachOf, S3Context } from "./s3-segments.ts";
import { S3Error } from "./s3-error.ts";
import { openS3, type S3Settings } from "./s3-store.ts";
import { patternAt, s3Fault, S3ForTests } from "./testing/s3-server.ts";

const MIB = 1024 * 1024;
const SEGMENT = 8 * MIB;
const TIMEOUT = { timeout: 300_000 };
const KEY = "org_1/rel_1";
const log = { info() {}, warn() {}, error() {} };
const options = { clock: systemClock, log };
const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

let s3: S3ForTests;
before(async () => void (s3 = await S3ForTests.start()));
after(() => s3[Symbol.asyncDispose]());
beforeEach(() => s3.reset());

/** Lists the keys of all objects below the prefix of `place`. */
async function objectsIn(place: S3Settings): Promise<string[]> {
  const store = await openS3(place, log);
  try {
    return (await Array.fromAsync(store.list(""))).map(({ key }) => key);
  } finally {
    store.close();
  }
}

const staged = async (place: S3Settings): Promise<number> =>
  new Set((await objectsIn(place)).filter((key) => key.startsWith("staging/")).map((key) => key.split("/")[1])).size + s3.begun.size;

/** Runs `body` with a blob store below the prefix of `place`. Default: a new prefix. */
async function withBlobs(body: (blobs: Blobs, place: S3Settings) => Promise<void>, place = s3.place()): Promise<void> {
  const blobs = await s3Blobs(place, options);
  try {
    await body(blobs, place);
  } finally {
    s3.fault = () => undefined;
    await blobs.close();
  }
}

const sweptAt = async (place: S3Settings, hours: number): Promise<void> => {
  const clock: Clock = { ...systemClock, now: () => new Date(Date.now() + hours * 3_600_000) };
  const context = new S3Context(await openS3(place, log), { clock, log });
  await sweepLeftovers(context);
  context.store.close();
};

const appendAll = async (blobs: Blobs, bytes: Buffer, lengths: readonly number[]): Promise<void> => {
  let offset = 0;
  for (const length of [...lengths, bytes.length]) {
    const stretch = bytes.subarray(offset, offset + length);
    const appended = await blobs.append(KEY, Readable.from([stretch]), { offset, max_bytes: bytes.length });
    offset += stretch.length;
    assert.deepEqual([appended, await blobs.uploaded(KEY)], [{ size: offset, whole: true }, offset]);
  }
};

blobsSuite("S3", async () => {
  const place = s3.place();
  const blobs = await s3Blobs(place, options);
  return { blobs, stagedCount: () => staged(place), close: () => blobs.close() };
});

test("joins appended chunks of sizes around the limits of parts and segments into one blob", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    const bytes = patternAt(0, 45 * MIB);
    await appendAll(blobs, bytes, [5 * MIB - 1, 1, 1, 5 * MIB, 3 * MIB, SEGMENT, 2 * SEGMENT + 1, 7, 5 * MIB - 1, 0]);
    const completed = await blobs.complete(KEY, { size: bytes.length, sha256: sha256(bytes) });
    for (const [start, end] of [
      [0, 0],
      [SEGMENT - 1, SEGMENT],
      [5 * MIB - 2, 40 * MIB],
      [bytes.length - 1, bytes.length - 1],
    ] as const)
      assert.ok((await buffer(completed.read({ start, end }))).equals(bytes.subarray(start, end + 1)));
    await completed.prepare("org_1/done");
    assert.equal(await blobs.stat("org_1/done"), undefined);
    s3.requests.splice(0);
    await completed.commit("org_1/done");
    assert.deepEqual(s3.requests[0]?.method, "POST", "one request makes the prepared blob visible");
    assert.ok((await buffer((await blobs.read("org_1/done")).stream)).equals(bytes));
    await blobs.close();
    assert.deepEqual([await objectsIn(place), s3.begun.size], [["blobs/org_1/done"], 0]);
  }),
);

test("leaves only the committed blobs after uploads of many parts are committed or discarded", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    const bytes = patternAt(0, 2 * SEGMENT + 8);
    const receive = () => blobs.receive(Readable.from([bytes]), { max_bytes: bytes.length, expect: { sha256: sha256(bytes) } });
    const kept = await receive();
    assert.ok((await buffer(kept.read({ start: SEGMENT - 3, end: 2 * SEGMENT + 2 }))).equals(bytes.subarray(SEGMENT - 3, 2 * SEGMENT + 3)));
    await kept.commit("org_1/kept");
    const dropped = await receive();
    await dropped.prepare("org_1/dropped");
    assert.equal(s3.begun.size, 1);
    await dropped.discard();
    assert.ok((await buffer((await blobs.read("org_1/kept")).stream)).equals(bytes));
    await blobs.close();
    assert.deepEqual([await objectsIn(place), s3.begun.size], [["blobs/org_1/kept"], 0]);
  }),
);

test("buffers at most four segments and sends three concurrently while the store is slow", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    let [read, flying, most] = [0, 0, 0];
    const go = Promise.withResolvers<void>();
    const full = Promise.withResolvers<void>();
    s3.fault = ({ method, url }) => {
      if (method !== "PUT" || !url.includes("/staging/")) return undefined;
      flying += 1;
      most = Math.max(most, flying);
      if (flying === 3) full.resolve();
      return go.promise.then(() => {
        flying -= 1;
        return undefined;
      });
    };
    const source = async function* (): AsyncGenerator<Buffer> {
      for (; read < 12 * SEGMENT; read += MIB) yield patternAt(read, MIB);
    };
    const received = blobs.receive(Readable.from(source(), { highWaterMark: 1 }), { max_bytes: 12 * SEGMENT });
    await full.promise;
    // Enough turns of the event loop for the upload to read as much as its buffers take.
    for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(read <= 4 * SEGMENT + 2 * MIB, `${read} bytes were read`);
    go.resolve();
    assert.equal((await received).size, 12 * SEGMENT);
    assert.ok(most <= 3, `${most} segments on their way`);
  }),
);

/** Starts a process that uploads, and kills it when there are `objects` objects below the prefix of `place`. */
async function killUploading(mode: "receive" | "append", place: S3Settings, objects: number): Promise<void> {
  const file = path.join(import.meta.dirname, "testing/s3-uploading.ts");
  const child: ChildProcess = spawn(process.execPath, [file, mode, JSON.stringify(place)], { stdio: ["ignore", "ignore", "inherit"] });
  try {
    const exited = once(child, "exit");
    await until("the process to upload", async () => {
      assert.equal(child.exitCode, null, "the process ended");
      return (await objectsIn(place)).length >= objects;
    });
    child.kill("SIGKILL");
    await exited;
  } finally {
    child.kill("SIGKILL");
  }
}

test("uploads killed while receiving leave no blob, and their leftovers are removed after a day", TIMEOUT, async () => {
  const place = s3.place();
  for (let round = 1; round <= 2; round += 1) await killUploading("receive", place, round * 2);
  await withBlobs(async (blobs) => {
    assert.deepEqual(await Array.fromAsync(blobs.list("")), []);
    assert.deepEqual(await Array.fromAsync(blobs.listUploads()), []);
    await sweptAt(place, 23);
    assert.ok((await objectsIn(place)).length > 0);
    await sweptAt(place, 25);
    assert.deepEqual(await objectsIn(place), []);
  }, place);
});

test("keeps all acknowledged bytes when the process is killed repeatedly while appending", TIMEOUT, async () => {
  const place = s3.place();
  let kept = 0;
  for (let round = 1; round <= 3; round += 1) {
    await killUploading("append", place, (await objectsIn(place)).length + round);
    await withBlobs(async (blobs) => {
      const now = await blobs.uploaded(KEY);
      assert.ok(now >= kept, `${kept} bytes were kept, now ${now}`);
      kept = now;
      if (kept > 0) await blobs.complete(KEY, { size: kept, sha256: sha256(patternAt(0, kept)) });
    }, place);
  }
  await withBlobs(async (blobs) => {
    await blobs.append(KEY, Readable.from([patternAt(kept, MIB)]), { offset: kept, max_bytes: kept + MIB });
    const whole = patternAt(0, kept + MIB);
    await (await blobs.complete(KEY, { size: whole.length, sha256: sha256(whole) })).commit("org_1/done");
    assert.ok((await buffer((await blobs.read("org_1/done")).stream)).equals(whole));
  }, place);
  assert.deepEqual(await objectsIn(place), ["blobs/org_1/done"]);
});

test("ignores the cached digest of an upload that another server restarted", TIMEOUT, () =>
  withBlobs(async (here, place) => {
    await here.append(KEY, Readable.from(["right"]), { offset: 0, max_bytes: 10 });
    await withBlobs(async (there) => {
      await there.abandon(KEY);
      await there.append(KEY, Readable.from(["wrong"]), { offset: 0, max_bytes: 10 });
    }, place);
    await assert.rejects(here.complete(KEY, { size: 5, sha256: sha256(Buffer.from("right")) }), { code: "mismatch" });
    await here.append(KEY, Readable.from(["er"]), { offset: 5, max_bytes: 10 });
    await assert.rejects(here.complete(KEY, { size: 7, sha256: sha256(Buffer.from("righter")) }), { code: "mismatch" });
    await here.complete(KEY, { size: 7, sha256: sha256(Buffer.from("wronger")) });
  }),
);

test("completes uploads and deletions by retries when every fourth request to the store fails", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    const bytes = patternAt(0, 20 * MIB);
    const faults = [s3Fault(503, "SlowDown"), "close", s3Fault(500, "InternalError"), "lost"] as const;
    let asked = 0;
    s3.fault = () => {
      asked += 1;
      return asked % 4 === 0 ? faults[(asked / 4) % faults.length] : undefined;
    };
    const received = await blobs.receive(Readable.from([bytes]), { max_bytes: bytes.length });
    await received.commit("org_1/received");
    await appendAll(blobs, bytes, [3 * MIB, 9 * MIB]);
    await (await blobs.complete(KEY, { size: bytes.length, sha256: sha256(bytes) })).commit("org_1/appended");
    for (const key of ["org_1/received", "org_1/appended"]) assert.ok((await buffer((await blobs.read(key)).stream)).equals(bytes), key);
    await blobs.delete("org_1/received");
    await blobs.close();
    s3.fault = () => undefined;
    assert.deepEqual(
      (await objectsIn(place)).filter((key) => key.startsWith("blobs/")),
      ["blobs/org_1/appended"],
    );
  }),
);

test("commits a blob even if the response to completing its multipart upload is lost", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    const bytes = patternAt(0, 2 * SEGMENT);
    let lost = 0;
    s3.fault = ({ method, url }) => (method === "POST" && url.includes("uploadId=") && (lost += 1) === 1 ? "lost" : undefined);
    await (await blobs.receive(Readable.from([bytes]), { max_bytes: bytes.length })).commit("org_1/done");
    assert.equal(lost, 2);
    assert.equal((await blobs.stat("org_1/done"))?.size, bytes.length);
  }),
);

test("resumes an interrupted download at its offset, and fails if the blob has changed", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    const bytes = patternAt(0, 4 * MIB);
    const put = async (content: Buffer) =>
      (await blobs.receive(Readable.from([content]), { max_bytes: content.length })).commit("org_1/same");
    await put(bytes);
    let cuts = 0;
    s3.fault = ({ method }) => (method === "GET" && (cuts += 1) <= 3 ? "cut" : undefined);
    assert.ok((await buffer((await blobs.read("org_1/same", { start: 8, end: bytes.length - 9 })).stream)).equals(bytes.subarray(8, -8)));
    assert.equal(cuts, 4);
    cuts = 2;
    const { stream } = await blobs.read("org_1/same");
    await put(patternAt(8, bytes.length));
    await assert.rejects(buffer(stream), S3Error);
  }),
);

test("serves further reads after a reader aborts a download", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    const bytes = patternAt(0, 9 * MIB);
    await (await blobs.receive(Readable.from([bytes]), { max_bytes: bytes.length })).commit("org_1/big");
    const { stream } = await blobs.read("org_1/big");
    const closed = new Promise((resolve) => stream.once("close", resolve));
    stream.once("data", () => stream.destroy());
    await closed;
    assert.equal((await buffer((await blobs.read("org_1/big", { start: 0, end: 7 })).stream)).length, 8);
  }),
);

test("fails uploads with the store's error, and continues them when the store is available again", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    await blobs.append(KEY, Readable.from(["some"]), { offset: 0, max_bytes: 100 });
    s3.fault = ({ method }) => (method === "PUT" ? s3Fault(500, "InternalError") : undefined);
    await assert.rejects(
      blobs.receive(Readable.from([Buffer.alloc(SEGMENT + 1)]), { max_bytes: 2 * SEGMENT }),
      /^S3Error: S3 store, PutObject: InternalError \(HTTP 500\)$/,
    );
    await assert.rejects(blobs.append(KEY, Readable.from(["more"]), { offset: 4, max_bytes: 100 }), S3Error);
    s3.fault = () => s3Fault(503, "ServiceUnavailable");
    await assert.rejects(blobs.freeBytes(), S3Error);
    s3.fault = () => undefined;
    assert.equal(await blobs.freeBytes(), Infinity);
    assert.equal(await blobs.uploaded(KEY), 4);
    await blobs.append(KEY, Readable.from(["more"]), { offset: 4, max_bytes: 100 });
    await blobs.complete(KEY, { size: 8, sha256: sha256(Buffer.from("somemore")) });
    assert.deepEqual([await staged(place), await Array.fromAsync(blobs.list(""))], [0, []]);
  }),
);

test("returns no_space when the S3 store is full", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    s3.fault = ({ method }) => (method === "PUT" ? s3Fault(400, "QuotaExceeded") : undefined);
    await assert.rejects(blobs.receive(Readable.from(["x"]), { max_bytes: 1 }), { code: "no_space" });
    await assert.rejects(blobs.append(KEY, Readable.from(["x"]), { offset: 0, max_bytes: 1 }), { code: "no_space" });
  }),
);

test("refuses to start if the store refuses the credentials, and only warns if it is unreachable", TIMEOUT, async () => {
  const echoed = "<AWSAccessKeyId>AKIATESTKEYID</AWSAccessKeyId><StringToSign>the-secret-of-the-test</StringToSign>";
  for (const [status, code, said] of [
    [403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID"],
    [403, "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID does not exist in the store"],
    [403, "AccessDenied", "permission denied: the credentials need permission to list, read, write and delete objects there"],
  ] as const) {
    s3.fault = () => s3Fault(status, code, echoed);
    const error = await s3Blobs(s3.place(), options).then(
      () => assert.fail("was accepted"),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof S3Error && error.stays);
    assert.equal(error.message, `S3 store, ListObjectsV2: ${code} (HTTP ${status}): ${said}`);
    assert.doesNotMatch(inspect(error, { depth: Infinity, showHidden: true }), /the-secret|AKIATEST|Authorization/i);
  }
  s3.fault = () => undefined;
  await assert.rejects(
    s3Blobs({ ...s3.place(), bucket: "no-such-bucket" }, options),
    /NoSuchBucket \(HTTP 404\): there is no such bucket$/,
  );
  const warnings: object[] = [];
  const warn = (fields: object): void => void warnings.push(fields);
  const away = await s3Blobs({ ...s3.place(), endpoint: "http://127.0.0.1:1" }, { ...options, log: { ...log, warn } });
  await assert.rejects(away.stat("org_1/x"), /^S3Error: S3 store, HeadObject: ECONNREFUSED: connect ECONNREFUSED 127\.0\.0\.1:1$/);
  await away.close();
  assert.match(inspect(warnings), /ECONNREFUSED/);
});

test("removes uploads without their first segment, and leftover copies, after a day", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    const bytes = patternAt(0, 2 * SEGMENT);
    await blobs.append(KEY, Readable.from([bytes]), { offset: 0, max_bytes: bytes.length });
    await (await blobs.complete(KEY, { size: bytes.length, sha256: sha256(bytes) })).prepare("org_1/never");
    await blobs.append("org_1/rel_2", Readable.from([bytes]), { offset: 0, max_bytes: bytes.length });
    const store = await openS3(place, log);
    const [first = ""] = (await objectsIn(place)).filter((key) => key.startsWith("uploads/org_1/rel_2/"));
    await store.remove(first);
    store.close();
    assert.deepEqual([await blobs.uploaded("org_1/rel_2"), s3.begun.size], [0, 1]);
    await sweptAt(place, 23);
    assert.deepEqual([(await objectsIn(place)).length, s3.begun.size], [3, 1]);
    await sweptAt(place, 25);
    assert.deepEqual([(await objectsIn(place)).length, s3.begun.size, await blobs.uploaded(KEY)], [2, 0, bytes.length]);
  }),
);

test("a restarted upload does not include old segments whose first segment was lost", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    const old = patternAt(0, 2 * SEGMENT);
    await blobs.append(KEY, Readable.from([old]), { offset: 0, max_bytes: old.length });
    const store = await openS3(place, log);
    const [first = ""] = await objectsIn(place);
    await store.remove(first);
    store.close();
    const bytes = patternAt(8, SEGMENT);
    await blobs.append(KEY, Readable.from([bytes]), { offset: 0, max_bytes: old.length });
    assert.equal(await blobs.uploaded(KEY), SEGMENT);
  }),
);

test("lists all blobs, also those on later pages of the S3 server's response", TIMEOUT, () =>
  withBlobs(async (blobs, place) => {
    const store = await openS3(place, log);
    const names = Array.from({ length: 1_005 }, (_, index) => `b${index}`);
    await forEachOf(names, 16, (name) => store.put(`blobs/org_1/${name}`, Buffer.from("x")));
    await store.put("blobs/not a key/x", Buffer.from("x"));
    store.close();
    assert.equal((await Array.fromAsync(blobs.list("org_1/"))).length, 1_005);
    assert.equal(new Set((await Array.fromAsync(blobs.list(""))).map(({ key }) => key)).size, 1_005);
  }),
);
