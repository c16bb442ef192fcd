import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { lookInside, noteOf } from "./file-content.ts";

function entry(name: string, bytes: number): Buffer<ArrayBuffer> {
  const header = Buffer.alloc(512 + Math.ceil(bytes / 512) * 512);
  header.write(name, 0, "latin1");
  header.write(`${bytes.toString(8).padStart(11, "0")}\0`, 124, "latin1");
  return header;
}
const tar = (...names: string[]): Buffer<ArrayBuffer> => Buffer.concat([...names.map((name) => entry(name, 700)), Buffer.alloc(1_024)]);

test("detects the content type of a file as rf does", async () => {
  const bundle = new Blob([gzipSync(tar("bin/run", "./roamfleet.json"))]);
  assert.deepEqual(await lookInside(bundle), { kind: "app_bundle", is_gzip: true });
  const image = new Blob([tar("blobs/sha256/abc", "manifest.json")]);
  assert.deepEqual(await lookInside(image), { kind: "container_image", is_gzip: false });
  assert.deepEqual(await lookInside(new Blob([gzipSync(tar("a"))])), { kind: undefined, is_gzip: true });
  assert.deepEqual(await lookInside(new Blob(["hsqs…"])), { kind: "os_image", is_gzip: false });
  assert.deepEqual(await lookInside(new Blob(["hello"])), { kind: undefined, is_gzip: false });
  assert.deepEqual(await lookInside(new Blob([gzipSync(tar("a")).subarray(0, 40)])), { kind: undefined, is_gzip: true });
  assert.deepEqual(await lookInside(new Blob([])), { kind: undefined, is_gzip: false });
});

test("warns only if the release kind does not match the file", () => {
  assert.equal(noteOf({ kind: "container_image", is_gzip: false }, "container_image"), undefined);
  assert.equal(noteOf({ kind: undefined, is_gzip: false }, "file"), undefined);
  assert.match(noteOf({ kind: undefined, is_gzip: true }, "container_image") ?? "", /compressed/);
  assert.match(noteOf({ kind: undefined, is_gzip: false }, "container_image") ?? "", /docker save/);
  assert.match(noteOf({ kind: "os_image", is_gzip: false }, "os_image") ?? "", /released as an OS image/);
  assert.match(noteOf({ kind: "os_image", is_gzip: false }, "container_image") ?? "", /looks like a RAUC bundle/);
  assert.match(noteOf({ kind: "app_bundle", is_gzip: true }, "container_image") ?? "", /looks like an app bundle/);
});
