import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultTag, isBundleManifest, isGzip, isImageIndex, tarNames } from "./release-file.ts";

test("derives a release tag from the file name without its extension", () => {
  const tags = {
    "app.tar": "app",
    "app.TAR.GZ": "app",
    "app-1.2.0.tar.gz": "app-1.2.0",
    "a.tar.xz": "a",
    "a.tar.zst": "a",
    "a.tgz": "a",
    "app-1.2.0": "app-1.2.0",
    "app-1.2.0.zip": "app-1.2.0",
    "two.words.bin": "two.words",
    plain: "plain",
    ".hidden": ".hidden",
    ".tar.gz": ".tar.gz",
    "ends.": "ends.",
  };
  for (const [file, tag] of Object.entries(tags)) assert.equal(defaultTag(file), tag, file);
});

/** A tar entry: the name, the size in octal, and the content, padded to blocks. */
function entry(name: string, content: string): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0, "latin1");
  header.write(`${content.length.toString(8).padStart(11, "0")}\0`, 124, "latin1");
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  body.write(content, "latin1");
  return Buffer.concat([header, body]);
}

async function* inChunks(bytes: Buffer, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

test("finds the entry names of a tar archive for any chunk size", async () => {
  const archive = Buffer.concat([
    entry("bin/run", "x".repeat(700)),
    entry("./roamfleet.json", "{}"),
    entry("empty", ""),
    Buffer.alloc(1024),
  ]);
  for (const length of [1, 511, 512, 513, 100_000]) {
    assert.deepEqual(await Array.fromAsync(tarNames(inChunks(archive, length))), ["bin/run", "./roamfleet.json", "empty"], String(length));
  }
});

test("returns no entry names for a file that is not a tar archive", async () => {
  assert.deepEqual(await Array.fromAsync(tarNames(inChunks(Buffer.from("hello".repeat(300)), 64))), []);
});

test("detects the manifest of an archive only at its root", () => {
  assert.deepEqual(["roamfleet.json", "./roamfleet.json", "a/roamfleet.json"].map(isBundleManifest), [true, true, false]);
  assert.deepEqual(["manifest.json", "./index.json", "blobs/index.json"].map(isImageIndex), [true, true, false]);
  assert.deepEqual([isGzip(Uint8Array.of(0x1f, 0x8b, 8)), isGzip(Uint8Array.of(0x1f)), isGzip(new Uint8Array())], [true, false, false]);
});
