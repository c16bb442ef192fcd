import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";
import { tarGz, type TestEntry } from "../testing/bundles.ts";
import { StepFailure } from "./failure.ts";
import { ENTRY_PATH_BYTES_MAX } from "./limits.ts";
import { unpackBounds, unpackBundle } from "./unpack.ts";

let root: string;
beforeEach(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-unpack-"));
  fs.writeFileSync(path.join(root, "outside"), "untouched");
});
afterEach(() => fs.rmSync(root, { recursive: true, force: true }));

async function unpack(archive: Buffer, bounds = unpackBounds(archive.length)): Promise<string> {
  const file = path.join(root, "archive");
  const directory = path.join(root, "into");
  fs.writeFileSync(file, archive);
  await unpackBundle(file, directory, bounds, new AbortController().signal);
  return directory;
}

/** Asserts that only the archive and the unchanged file outside exist. */
function nothingElse(): void {
  assert.deepEqual(fs.readdirSync(root).toSorted(), ["archive", "outside"]);
  assert.equal(fs.readFileSync(path.join(root, "outside"), "utf8"), "untouched");
}

test("unpacks files, folders, modes, hard links and symlinks inside the bundle", async () => {
  const directory = await unpack(
    await tarGz([
      { name: "bin/", type: "directory" },
      { name: "./bin/run", mode: 0o755, content: "go" },
      { name: "data/deep/file", mode: 0o4666, content: "x" },
      { name: "data/link", type: "symlink", linkname: "../bin/run" },
      { name: "hard", type: "link", linkname: "bin/run" },
      { name: "größe/ünï", content: "utf8" },
    ]),
  );
  assert.equal(fs.readFileSync(path.join(directory, "data/link"), "utf8"), "go");
  assert.equal(fs.statSync(path.join(directory, "hard")).ino, fs.statSync(path.join(directory, "bin/run")).ino);
  assert.equal(fs.statSync(path.join(directory, "bin/run")).mode & 0o7777, 0o755);
  // Unpacking removes the setuid bit.
  assert.equal(fs.statSync(path.join(directory, "data/deep/file")).mode & 0o7777, 0o666);
  assert.equal(fs.readFileSync(path.join(directory, "größe/ünï"), "utf8"), "utf8");
});

const hostile: Record<string, TestEntry[]> = {
  "a path into a parent folder": [{ name: "../outside", content: "!" }],
  "a path that leaves the tree after a subfolder": [{ name: "a/b/../../../outside", content: "!" }],
  "an absolute path": [{ name: "/tmp/roamfleet-evil", content: "!" }],
  "a backslash in a path": [{ name: "..\\outside", content: "!" }],
  "a NUL in a long name": [{ name: "a\0b", content: "!", pax: { path: "a\0b" } }],
  "a symlink out of the tree": [{ name: "l", type: "symlink", linkname: "../outside" }],
  "an absolute symlink": [{ name: "l", type: "symlink", linkname: "/etc/passwd" }],
  "a dangling symlink": [{ name: "l", type: "symlink", linkname: "nothing" }],
  "a chain of symlinks out of the tree": [
    { name: "a/b/c", type: "directory" },
    { name: "a/b/c/up", type: "symlink", linkname: "../../.." },
    { name: "out", type: "symlink", linkname: "a/b/c/up/../outside" },
  ],
  "a file below a symlink": [
    { name: "l", type: "symlink", linkname: ".." },
    { name: "l/outside", content: "!" },
  ],
  "a file below a symlink that follows it in the archive": [
    { name: "l/outside", content: "!" },
    { name: "l", type: "symlink", linkname: ".." },
  ],
  "a hard link out of the tree": [{ name: "h", type: "link", linkname: "../outside" }],
  "an absolute hard link": [{ name: "h", type: "link", linkname: "/etc/passwd" }],
  "a hard link to a symlink": [
    { name: "x", content: "x" },
    { name: "l", type: "symlink", linkname: "x" },
    { name: "h", type: "link", linkname: "l" },
  ],
  "a character device": [{ name: "d", type: "character-device", devmajor: 1, devminor: 3 }],
  "a block device": [{ name: "d", type: "block-device", devmajor: 8, devminor: 0 }],
  "a fifo": [{ name: "f", type: "fifo" }],
  "a name that is too long": [{ name: "n".repeat(300), content: "!" }],
  "a path that is too long": [{ name: "d/".repeat(ENTRY_PATH_BYTES_MAX), content: "!" }],
  "two names that differ in case": [
    { name: "File", content: "1" },
    { name: "file", content: "2" },
  ],
  "two folders that differ in case": [
    { name: "Dir/a", content: "1" },
    { name: "dir/b", content: "2" },
  ],
  "the same file twice": [
    { name: "f", content: "1" },
    { name: "f", content: "2" },
  ],
  "a file below a file": [
    { name: "f", content: "1" },
    { name: "f/g", content: "2" },
  ],
  "a file in place of the root folder": [{ name: "./", type: "file", content: "x" }],
};

for (const [what, entries] of Object.entries(hostile)) {
  test(`rejects an archive with ${what} and unpacks nothing`, async () => {
    await assert.rejects(unpack(await tarGz([{ name: "good", content: "good" }, ...entries])), (error: unknown) => {
      assert.ok(error instanceof StepFailure, String(error));
      assert.equal(error.reason, "rejected_by_robot");
      assert.match(error.message, /^unsafe archive: /);
      return true;
    });
    nothingElse();
    assert.ok(!fs.existsSync("/tmp/roamfleet-evil"));
  });
}

test("rejects an archive bomb once its unpacked size exceeds the limit", async () => {
  const bomb = gzipSync(Buffer.alloc(80 * 1024 * 1024));
  await assert.rejects(unpack(bomb), /unpacks to more than \d+ bytes/);
  nothingElse();
});

test("rejects an archive with too many entries", async () => {
  const many = await tarGz(Array.from({ length: 60 }, (_, index) => ({ name: `f${index}`, content: "" })));
  await assert.rejects(unpack(many, { entries: 50, bytes: 1_000_000 }), /more than 50 entries/);
  nothingElse();
});

test("rejects an invalid or truncated archive", async () => {
  const whole = await tarGz([{ name: "file", content: "x".repeat(100_000) }]);
  for (const bytes of [Buffer.from("hello"), Buffer.alloc(0), gzipSync("hello"), whole.subarray(0, whole.length / 2)]) {
    await assert.rejects(unpack(bytes), StepFailure);
    nothingElse();
  }
});
