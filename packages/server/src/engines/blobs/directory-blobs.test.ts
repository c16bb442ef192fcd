import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { BlobError } from "./blobs.ts";
import { blobsSuite } from "./testing/blobs-suite.ts";
import { directoryBlobs } from "./directory-blobs.ts";

const log = { info() {}, warn() {}, error() {} };
const MAX = { max_bytes: 100 * 1024 * 1024 };

async function makeBlobs() {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-blobs-"));
  return { directory, blobs: await directoryBlobs(directory, { log }), close: () => rm(directory, { recursive: true }) };
}

blobsSuite("directory", async () => {
  const { directory, blobs, close } = await makeBlobs();
  return { blobs, stagedCount: async () => (await readdir(join(directory, "staging"))).length, close };
});

test("stores each blob in a private file, in a folder named by its first two characters", async () => {
  const { directory, blobs, close } = await makeBlobs();
  try {
    await (await blobs.receive(Readable.from([Buffer.from("x")]), MAX)).commit("org_1/abcdef");
    const file = await stat(join(directory, "blobs", "org_1", "ab", "abcdef"));
    assert.equal(file.mode & 0o077, 0);
  } finally {
    await close();
  }
});

test("removes unfinished uploads of a crashed process at the start, and keeps blobs", async () => {
  const { directory, blobs, close } = await makeBlobs();
  try {
    await (await blobs.receive(Readable.from([Buffer.from("kept")]), MAX)).commit("org_1/kept");
    await blobs.receive(Readable.from([Buffer.from("staged")]), MAX);
    await writeFile(join(directory, "staging", "stray"), "x");
    const again = await directoryBlobs(directory, { log });
    assert.deepEqual(await readdir(join(directory, "staging")), []);
    assert.equal((await again.stat("org_1/kept"))?.size, 4);
    await (await again.receive(Readable.from([Buffer.from("new")]), MAX)).commit("org_1/new");
  } finally {
    await close();
  }
});

test(
  "returns no_space on a full disk, and accepts uploads again when space is free",
  { skip: canMount() ? false : "needs root to mount a small tmpfs" },
  async () => {
    const directory = await mkdtemp(join(tmpdir(), "roamfleet-full-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", directory]);
    try {
      const blobs = await directoryBlobs(directory, { log });
      await assert.rejects(
        blobs.receive(Readable.from([Buffer.alloc(2 * 1024 * 1024)]), MAX),
        (error) => error instanceof BlobError && error.code === "no_space",
      );
      assert.deepEqual(await readdir(join(directory, "staging")), []);
      await (await blobs.receive(Readable.from([Buffer.alloc(512 * 1024)]), MAX)).commit("org_1/small");
      assert.equal((await blobs.stat("org_1/small"))?.size, 512 * 1024);
      assert.ok((await blobs.freeBytes()) < 600 * 1024);
    } finally {
      execFileSync("umount", [directory]);
      await rm(directory, { recursive: true });
    }
  },
);

function canMount(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    execFileSync("unshare", ["--mount", "mount", "-t", "tmpfs", "tmpfs", tmpdir()], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
