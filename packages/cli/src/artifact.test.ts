import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { defaultTag, digestFile } from "./artifact.ts";

test("the tag of a file is its name without its last extension", () => {
  const tags = {
    "app.tar": "app",
    "dir.d/app.TAR.GZ": "app",
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

test("digest and size are those of the whole file", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "robofleet-artifact-"));
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
