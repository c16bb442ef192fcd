import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { digestFile } from "./artifact.ts";

test("computes digest and size of the whole file", async () => {
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
