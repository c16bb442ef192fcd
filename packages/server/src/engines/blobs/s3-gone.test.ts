import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { after, before, beforeEach, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { Blobs } from "./blobs.ts";
import { probeS3 } from "./probe-s3.ts";
import { s3Blobs } from "./s3-blobs.ts";
import { S3Error } from "./s3-error.ts";
import { patternAt, type S3Request, S3ForTests } from "./testing/s3-server.ts";

const MIB = 1024 * 1024;
const SEGMENT = 8 * MIB;
const KEY = "org_1/rel_1";
const TIMEOUT = { timeout: 90_000 };
/** How long the store may be silent; ten seconds by default. */
const QUIET_MS = 1_500;
const log = { info() {}, warn() {}, error() {} };

let s3: S3ForTests;
before(async () => void (s3 = await S3ForTests.start()));
after(() => s3[Symbol.asyncDispose]());
beforeEach(() => s3.reset());

/** Runs `body` with a blob store below a new prefix. */
async function withBlobs(body: (blobs: Blobs) => Promise<void>): Promise<void> {
  const blobs = await s3Blobs(s3.place(), { clock: systemClock, log, quiet_ms: QUIET_MS });
  try {
    await body(blobs);
  } finally {
    s3.fault = () => undefined;
    await blobs.close();
  }
}

const isPut = ({ method }: S3Request): boolean => method === "PUT";

test("fails an upload at its next byte when a segment could not be written", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    let tries = 0;
    s3.fault = (request) => (isPut(request) && (tries += 1) > 0 ? "reset" : undefined);
    async function* trickle(): AsyncGenerator<Buffer> {
      yield patternAt(0, SEGMENT);
      // Sends less than another full segment.
      for (let at = SEGMENT; at < 2 * SEGMENT; at += 1_024) {
        yield patternAt(at, 1_024);
        await new Promise((resolve) => setImmediate(resolve));
        await until("the segment to be given up", () => tries >= 3);
      }
    }
    let bytes = 0;
    const on_bytes = (more: number): void => void (bytes += more);
    const appended = blobs.append(KEY, Readable.from(trickle()), { offset: 0, max_bytes: 4 * SEGMENT, on_bytes });
    await assert.rejects(appended, (error) => error instanceof S3Error && error.is_silence);
    assert.ok(bytes < SEGMENT + SEGMENT / 2, `${bytes} bytes were taken`);
  }),
);

test("fails immediately while the store is silent, and detects when it responds again", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    await blobs.append(KEY, Readable.from([patternAt(0, SEGMENT)]), { offset: 0, max_bytes: 4 * SEGMENT });
    s3.fault = () => "silent";
    const bytes = patternAt(SEGMENT, SEGMENT);
    await assert.rejects(
      blobs.append(KEY, Readable.from([bytes]), { offset: SEGMENT, max_bytes: 4 * SEGMENT }),
      (error) => error instanceof S3Error && error.is_silence,
    );
    s3.requests.splice(0);
    const refused = await Promise.allSettled(Array.from({ length: 50 }, () => blobs.stat(KEY)));
    for (const one of refused) assert.match(String((one as PromiseRejectedResult).reason), /^S3Error: S3 store, HeadObject: /);
    assert.ok(s3.requests.length <= 1, `${s3.requests.length} asked`);
    s3.fault = () => undefined;
    assert.equal(await until("the store to be found", () => blobs.uploaded(KEY), { despite_errors: true }), SEGMENT);
    assert.deepEqual(await blobs.append(KEY, Readable.from([bytes]), { offset: SEGMENT, max_bytes: 4 * SEGMENT }), {
      size: 2 * SEGMENT,
      whole: true,
    });
  }),
);

test("retries a download that the store stops sending, and fails if the store stays silent", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    const bytes = patternAt(0, 4 * MIB);
    await (await blobs.receive(Readable.from([bytes]), { max_bytes: bytes.length })).commit("org_1/big");
    let asked = 0;
    s3.fault = ({ method }) => (method === "GET" ? ((asked += 1) === 1 ? "stuck" : "silent") : undefined);
    await assert.rejects(buffer((await blobs.read("org_1/big")).stream), (error) => error instanceof S3Error && error.is_silence);
    assert.ok(asked > 1, "it was taken up again");
  }),
);

test("concurrent calls of freeBytes share one request to the store", TIMEOUT, () =>
  withBlobs(async (blobs) => {
    await until("the sweep of the start to end", async () => {
      const before = s3.requests.length;
      await blobs.freeBytes();
      return s3.requests.length === before + 1;
    });
    const go = Promise.withResolvers<void>();
    s3.requests.splice(0);
    s3.fault = () => go.promise.then(() => undefined);
    const asked = Array.from({ length: 20 }, () => blobs.freeBytes());
    await until("one to ask", () => s3.requests.length > 0);
    go.resolve();
    assert.deepEqual(new Set(await Promise.all(asked)), new Set([Infinity]));
    assert.equal(s3.requests.length, 1);
  }),
);

test("the doctor removes its test object when the response to its creation is lost", TIMEOUT, async () => {
  s3.fault = ({ method }) => (method === "PUT" ? "lost" : undefined);
  const { left, failed } = await probeS3(s3.place(), { clock: systemClock, signal: new AbortController().signal });
  assert.deepEqual(left, []);
  assert.deepEqual(
    failed.map(({ step }) => step),
    ["write"],
  );
});
