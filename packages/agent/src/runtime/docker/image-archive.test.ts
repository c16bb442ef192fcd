import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { until } from "@roamfleet/clock/testing";
import { extract } from "tar-stream";
import { tarOf } from "../../testing/images.ts";
import { readArchive, renameArchive, unpackedArchiveBytes } from "./image-archive.ts";

const LIMIT = { timeout: 120_000 };
const IMAGE = { image_id: "sha256:0", config: "config", layers: ["layer"] };

async function withArchive(entries: Parameters<typeof tarOf>[0], use: (file: string) => Promise<void>): Promise<void> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "rf-archive-"));
  try {
    const file = path.join(directory, "image.tar");
    fs.writeFileSync(file, await tarOf(entries));
    await use(file);
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

test("drops the manifest files of an image archive, however their paths are written", LIMIT, async () => {
  const names = ["./manifest.json", ".//index.json", "a/../oci-layout", "/repositories", "b/./../manifest.json", "../index.json"];
  const entries = [
    ...names.map((name) => ({ name, content: "{}" })),
    { name: "safe", pax: { path: "x/../repositories" }, content: "{}" },
    { name: "./layer", content: "layer" },
  ];
  await withArchive(entries, async (file) => {
    const left: string[] = [];
    for await (const entry of Readable.from(renameArchive(file, IMAGE, "tag")).pipe(extract())) {
      left.push(entry.header.name);
      entry.resume();
    }
    assert.deepEqual(left, ["layer", "manifest.json"]);
  });
});

test("a missing image archive fails without an uncaught error", LIMIT, async () => {
  await assert.rejects(readArchive("/no/such/archive", "x64"), /is not a tar file: ENOENT/);
  await new Promise((resolve) => setImmediate(resolve));
});

test("closes an image archive's file when the stream is destroyed before its end", LIMIT, async () => {
  await withArchive([{ name: "layer", content: Buffer.alloc(4_000_000) }], async (file) => {
    const open = (): number =>
      fs.readdirSync("/proc/self/fd").filter((fd) => {
        try {
          return fs.readlinkSync(`/proc/self/fd/${fd}`) === file;
        } catch {
          return false;
        }
      }).length;
    const archive = renameArchive(file, IMAGE, "tag");
    await new Promise((resolve) => archive.once("data", resolve));
    archive.pause();
    assert.equal(open(), 1);
    archive.destroy();
    await until("the file to be closed", () => open() === 0);
  });
});

test("measures an image archive's unpacked size up to a limit and rejects a damaged layer", LIMIT, async () => {
  const { signal } = new AbortController();
  const layer = gzipSync(Buffer.alloc(20_000_000));
  const entries = [
    { name: "manifest.json", content: "[]" },
    { name: "blobs/sha256/layer", content: layer },
    { name: "blobs/sha256/plain", content: Buffer.alloc(1_000) },
  ];
  await withArchive(entries, async (file) => {
    assert.equal(await unpackedArchiveBytes(file, 1e9, signal), 20_001_002);
    const stopped = await unpackedArchiveBytes(file, 1_000_000, signal);
    assert.ok(stopped > 1_000_000 && stopped < 3_000_000, `${stopped}`);
  });
  const damaged = Buffer.concat([layer.subarray(0, 100), Buffer.alloc(200_000, 7)]);
  await withArchive([{ name: "layer", content: damaged }, ...entries], (file) =>
    assert.rejects(unpackedArchiveBytes(file, 1e9, signal), /cannot be unpacked/),
  );
});
