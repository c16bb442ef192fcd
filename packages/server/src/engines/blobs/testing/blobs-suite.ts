import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { BlobError, type BlobErrorCode, type Blobs } from "../blobs.ts";

export interface BlobsUnderTest {
  blobs: Blobs;
  /** Returns the number of staged uploads that are neither committed nor discarded. */
  stagedCount: () => Promise<number>;
  close(): Promise<void>;
}

const TIMEOUT = { timeout: 120_000 };
const MAX = { max_bytes: 10 * 1024 * 1024 };
const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
const refusal =
  (code: BlobErrorCode) =>
  (error: unknown): boolean =>
    error instanceof BlobError && error.code === code;

/** Runs the tests that every implementation of a blob store must pass. */
export function blobsSuite(name: string, make: () => Promise<BlobsUnderTest>): void {
  const check = (behavior: string, body: (under_test: BlobsUnderTest) => Promise<void>): void => {
    test(`${name}: ${behavior}`, TIMEOUT, async () => {
      const under_test = await make();
      try {
        await body(under_test);
      } finally {
        await under_test.close();
      }
    });
  };
  const put = async (blobs: Blobs, key: string, bytes: Buffer): Promise<void> => {
    await (await blobs.receive(Readable.from([bytes]), MAX)).commit(key);
  };

  check("reads a committed blob, whole and in ranges", async ({ blobs }) => {
    const bytes = Buffer.alloc(3_000_000, "0123456789abcdef-");
    const staged = await blobs.receive(Readable.from([bytes.subarray(0, 100), bytes.subarray(100)]), {
      ...MAX,
      expect: { size: bytes.length, sha256: sha256(bytes) },
    });
    assert.deepEqual([staged.size, staged.sha256], [bytes.length, sha256(bytes)]);
    assert.ok((await buffer(staged.read())).equals(bytes));
    assert.ok((await buffer(staged.read({ start: 90, end: 110 }))).equals(bytes.subarray(90, 111)));
    await staged.commit(`org_1/${staged.sha256}`);
    const read = async (range?: { start: number; end: number }): Promise<Buffer> => {
      const { stream, size } = await blobs.read(`org_1/${staged.sha256}`, range);
      assert.equal(size, bytes.length);
      return await buffer(stream);
    };
    assert.ok((await read()).equals(bytes));
    assert.ok((await read({ start: 0, end: 0 })).equals(bytes.subarray(0, 1)));
    assert.ok((await read({ start: 1_000_000, end: 2_999_999 })).equals(bytes.subarray(1_000_000)));
    for (const range of [
      { start: 3_000_000, end: 3_000_000 },
      { start: 0, end: 3_000_000 },
      { start: 5, end: 4 },
      { start: -1, end: 4 },
    ]) {
      await assert.rejects(blobs.read(`org_1/${staged.sha256}`, range), refusal("bad_range"));
    }
  });

  check("stores an empty blob", async ({ blobs }) => {
    await put(blobs, "org_1/empty", Buffer.alloc(0));
    assert.equal((await blobs.stat("org_1/empty"))?.size, 0);
    assert.equal((await buffer((await blobs.read("org_1/empty")).stream)).length, 0);
  });

  check("a blob is readable only after its commit, and not after a discard", async ({ blobs, stagedCount }) => {
    const staged = await blobs.receive(Readable.from([Buffer.from("x")]), MAX);
    assert.equal(await stagedCount(), 1);
    assert.equal(await blobs.stat(`org_1/${staged.sha256}`), undefined);
    await staged.discard();
    await staged.discard();
    assert.equal(await stagedCount(), 0);
    await assert.rejects(staged.commit(`org_1/${staged.sha256}`));
    const kept = await blobs.receive(Readable.from([Buffer.from("y")]), MAX);
    await kept.commit("org_1/y");
    await kept.discard();
    assert.equal((await blobs.stat("org_1/y"))?.size, 1);
  });

  check("a commit replaces an existing blob, while open reads continue with the old bytes", async ({ blobs }) => {
    await put(blobs, "org_1/same", Buffer.from("old bytes"));
    const { stream } = await blobs.read("org_1/same");
    await put(blobs, "org_1/same", Buffer.from("new"));
    assert.equal((await buffer(stream)).toString(), "old bytes");
    assert.equal((await buffer((await blobs.read("org_1/same")).stream)).toString(), "new");
  });

  check("keeps nothing of an upload that is too large, wrong or interrupted", async ({ blobs, stagedCount }) => {
    const bytes = Buffer.from("0123456789");
    const receive = (options: Parameters<Blobs["receive"]>[1]) => blobs.receive(Readable.from([bytes]), options);
    await assert.rejects(receive({ max_bytes: 9 }), refusal("too_large"));
    await assert.rejects(receive({ ...MAX, expect: { size: 11 } }), refusal("mismatch"));
    await assert.rejects(receive({ ...MAX, expect: { size: 9 } }), refusal("mismatch"));
    await assert.rejects(receive({ ...MAX, expect: { sha256: "00".repeat(32) } }), refusal("mismatch"));
    await (await receive({ max_bytes: 10, expect: { sha256: sha256(bytes) } })).discard();
    for (const error of [new Error("planned"), undefined]) {
      const broken = new PassThrough();
      broken.write("half");
      const received = blobs.receive(broken, MAX);
      setImmediate(() => broken.destroy(error));
      await assert.rejects(received, refusal("interrupted"));
    }
    const dead = new PassThrough();
    dead.write("half");
    dead.destroy();
    await assert.rejects(blobs.receive(dead, MAX), refusal("interrupted"));
    assert.equal(await stagedCount(), 0);
  });

  check("destroys the stream of an aborted upload, but not of a refused one", async ({ blobs, stagedCount }) => {
    const long = new PassThrough();
    long.write(Buffer.alloc(100));
    await assert.rejects(blobs.receive(long, { max_bytes: 50 }), refusal("too_large"));
    assert.equal(long.destroyed, false);
    const stopping = new AbortController();
    const stuck = new PassThrough();
    const received = blobs.receive(stuck, { ...MAX, signal: stopping.signal });
    setImmediate(() => stopping.abort());
    await assert.rejects(received, refusal("interrupted"));
    assert.equal(stuck.destroyed, true);
    assert.equal(await stagedCount(), 0);
  });

  check("reports a missing blob", async ({ blobs }) => {
    await assert.rejects(blobs.read("org_1/none"), refusal("not_found"));
    assert.equal(await blobs.stat("org_1/none"), undefined);
    await blobs.delete("org_1/none");
    await put(blobs, "org_1/some", Buffer.from("x"));
    await blobs.delete("org_1/some");
    assert.equal(await blobs.stat("org_1/some"), undefined);
  });

  check("every method refuses invalid keys", async ({ blobs, stagedCount }) => {
    for (const key of [
      "",
      "a",
      "/a",
      "a/",
      "a/b/c",
      "../a",
      "a/..",
      "a/.",
      "a/.hidden",
      "a\\b/c",
      "a/b\0c",
      "a/b c",
      "a/%2e%2e",
      `a/${"x".repeat(200)}`,
      "é/a",
    ]) {
      const staged = await blobs.receive(Readable.from([Buffer.from("x")]), MAX);
      await assert.rejects(staged.commit(key), refusal("bad_key"), key);
      await staged.discard();
      await assert.rejects(blobs.read(key), refusal("bad_key"), key);
      await assert.rejects(blobs.stat(key), refusal("bad_key"), key);
      await assert.rejects(blobs.delete(key), refusal("bad_key"), key);
    }
    for (const prefix of ["org_1", "../", "/", "a/b/"])
      await assert.rejects(Array.fromAsync(blobs.list(prefix)), refusal("bad_key"), prefix);
    assert.equal(await stagedCount(), 0);
  });

  check("lists the blobs under a prefix, or all", async ({ blobs }) => {
    for (const key of ["org_1/aa1", "org_1/aa2", "org_1/b", "org_2/aa1", "org_10/x"]) await put(blobs, key, Buffer.from(key));
    const keys = async (prefix: string): Promise<string[]> =>
      (await Array.fromAsync(blobs.list(prefix))).map(({ key, size }) => `${key} ${size}`).toSorted();
    assert.deepEqual(await keys("org_1/"), ["org_1/aa1 9", "org_1/aa2 9", "org_1/b 7"]);
    assert.deepEqual((await keys("")).length, 5);
    assert.deepEqual(await keys("org_3/"), []);
  });

  check("concurrent uploads do not mix their bytes", async ({ blobs, stagedCount }) => {
    const contents = Array.from({ length: 30 }, (_, i) => Buffer.alloc(50_000, `${i % 10}`));
    await Promise.all(
      contents.map(async (bytes) => {
        const staged = await blobs.receive(Readable.from([bytes.subarray(0, 7), bytes.subarray(7)]), {
          ...MAX,
          expect: { sha256: sha256(bytes) },
        });
        await staged.commit(`org_1/${staged.sha256}`);
      }),
    );
    const found = await Array.fromAsync(blobs.list("org_1/"));
    assert.equal(found.length, 10);
    for (const { key } of found) assert.equal(sha256(await buffer((await blobs.read(key)).stream)), key.slice("org_1/".length));
    assert.equal(await stagedCount(), 0);
  });

  check("a resumable upload keeps received bytes, and becomes a blob when complete and correct", async ({ blobs }) => {
    const bytes = Buffer.alloc(2_000_000, "0123456789abcdef-");
    const key = "org_1/rel_1";
    const append = (offset: number, stream: Readable, max_bytes = bytes.length) => blobs.append(key, stream, { offset, max_bytes });
    assert.equal(await blobs.uploaded(key), 0);
    assert.deepEqual(await append(0, Readable.from([bytes.subarray(0, 7), bytes.subarray(7, 100)])), { size: 100, whole: true });
    const broken = new PassThrough();
    broken.write(bytes.subarray(100, 200));
    const appended = blobs.append(key, broken, { offset: 100, max_bytes: bytes.length, on_bytes: () => void broken.destroy() });
    assert.deepEqual(await appended, { size: 200, whole: false });
    assert.equal(await blobs.uploaded(key), 200);
    await assert.rejects(append(100, Readable.from([bytes])), refusal("bad_range"));
    await assert.rejects(append(200, Readable.from([bytes])), refusal("too_large"));
    assert.deepEqual(await Array.fromAsync(blobs.listUploads(), ({ key: name, size }) => [name, size]), [[key, 200]]);
    await assert.rejects(blobs.complete(key, { size: bytes.length, sha256: sha256(bytes) }), refusal("mismatch"));
    await append(200, Readable.from([bytes.subarray(200)]));
    await assert.rejects(blobs.complete(key, { size: bytes.length, sha256: "00".repeat(32) }), refusal("mismatch"));
    const completed = await blobs.complete(key, { size: bytes.length, sha256: sha256(bytes) });
    assert.ok((await buffer(completed.read())).equals(bytes));
    assert.equal(await blobs.stat("org_1/done"), undefined);
    await completed.commit("org_1/done");
    await completed.commit("org_1/done");
    assert.ok((await buffer((await blobs.read("org_1/done")).stream)).equals(bytes));
    assert.deepEqual([await blobs.uploaded(key), await Array.fromAsync(blobs.listUploads())], [0, []]);
  });

  check("an upload that was abandoned starts again from zero", async ({ blobs }) => {
    await blobs.append("org_1/rel_1", Readable.from(["some"]), { offset: 0, max_bytes: 10 });
    await blobs.abandon("org_1/rel_1");
    await blobs.abandon("org_1/rel_1");
    assert.equal(await blobs.uploaded("org_1/rel_1"), 0);
    await blobs.append("org_1/rel_1", Readable.from(["other"]), { offset: 0, max_bytes: 10 });
    await (await blobs.complete("org_1/rel_1", { size: 5, sha256: sha256(Buffer.from("other")) })).commit("org_1/done");
    assert.equal((await blobs.stat("org_1/done"))?.size, 5);
  });

  check("returns the free space in bytes", async ({ blobs }) => {
    assert.ok((await blobs.freeBytes()) > 0);
  });
}
