import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { dockerArchive, ociEntries, tarOf } from "@roamfleet/protocol/image-archive/testing";
import { digestFile, detectContent, readManifest } from "./artifact.ts";
import { Failure } from "./failure.ts";

test("computes the digest and size of an artifact file", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-artifact-"));
  try {
    const content = Buffer.alloc(3_000_001, "robot");
    await writeFile(path.join(directory, "a"), content);
    const seen: number[] = [];
    const artifact = await digestFile(path.join(directory, "a"), (done) => seen.push(done));
    assert.deepEqual(artifact, { sha256: createHash("sha256").update(content).digest("hex"), size: content.length });
    assert.equal(seen.at(-1), content.length);
    await assert.rejects(
      digestFile(directory, () => {}),
      /is a directory/,
    );
  } finally {
    await rm(directory, { recursive: true });
  }
});

let directory = "";
before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "roamfleet-content-"));
});
after(() => rm(directory, { recursive: true }));

async function fileOf(bytes: Buffer | string): Promise<string> {
  const file = path.join(directory, "a");
  await writeFile(file, bytes);
  return file;
}

const look = async (bytes: Buffer) => detectContent(await fileOf(bytes), bytes.length);
const LAYER = Buffer.alloc(100_000, "layer");
const BUNDLE = [
  { name: "./", type: "5" },
  { name: "./bin/app", content: LAYER },
  { name: "./roamfleet.json", content: "{}" },
];

test("detects container images, app bundles and RAUC bundles, and leaves other files undetermined", async () => {
  const cases: readonly [Buffer, string | undefined, number][] = [
    [dockerArchive([LAYER]), "container_image", 1],
    [tarOf(ociEntries([{ layers: [LAYER] }])), "container_image", 1],
    [gzipSync(tarOf(BUNDLE)), "app_bundle", 0],
    [gzipSync(tarOf([{ name: "roamfleet.json", content: "{}" }])), "app_bundle", 0],
    [gzipSync(tarOf([{ name: "bin/roamfleet.json", content: "{}" }])), undefined, 0],
    [gzipSync(dockerArchive([LAYER])), undefined, 0],
    [gzipSync(tarOf(BUNDLE)).subarray(0, 50), undefined, 0],
    [Buffer.from("hsqs and the rest of a squashfs"), "os_image", 0],
    [Buffer.from("a text"), undefined, 0],
    [Buffer.alloc(0), undefined, 0],
  ];
  for (const [bytes, kind, images] of cases) {
    const found = await look(bytes);
    assert.deepEqual([found.kind, found.images.length], [kind, images]);
  }
});

test("rejects a broken image before the upload and suggests other kinds", async () => {
  await assert.rejects(look(tarOf([{ name: "notes.txt", content: "x" }])), (error: unknown) => {
    assert.ok(error instanceof Failure);
    assert.match(error.message, /is a tar archive, but not an image .*neither a manifest\.json/);
    assert.match(error.hints.join(), /--kind file/);
    return true;
  });
});

test("reads a manifest as JSON or YAML", async () => {
  const yaml = path.join(directory, "container.yaml");
  await writeFile(yaml, "# how it runs\nports:\n  - {container: 80, host: 8080}\nhost_network: false\n");
  assert.deepEqual(await readManifest(yaml), { ports: [{ container: 80, host: 8080 }], host_network: false });
  assert.deepEqual(await readManifest(await fileOf('{"replace": "beside"}')), { replace: "beside" });
  for (const [content, message] of [
    ["a: [", /is not valid YAML: /],
    ["- 1", /does not contain an object/],
    ["a: &a [x]\nb: *c", /is not valid YAML: /],
  ] as const) {
    await writeFile(yaml, content);
    await assert.rejects(readManifest(yaml), message);
  }
  await assert.rejects(readManifest(await fileOf("replace: beside")), /is not valid JSON: /);
});
