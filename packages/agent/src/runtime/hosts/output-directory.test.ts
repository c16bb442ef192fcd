import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../testing/agent-rig.ts";
import { createOutput, MEMORY_FILE_BYTES, MEMORY_RUN_BYTES_MAX, removeOutput } from "./output-directory.ts";
import { OUTPUT_FILE_BYTES } from "./wrapper-script.ts";

test("links the output of a run to a private directory in memory, and deletes both", (t) => {
  const root = temporaryDirectory(t);
  const output = path.join(root, "apps/main/output/1");
  assert.equal(createOutput(output, root), MEMORY_FILE_BYTES);
  const target = fs.readlinkSync(output);
  assert.equal(path.dirname(target), root);
  assert.equal(fs.statSync(target).mode & 0o777, 0o700);
  fs.writeFileSync(path.join(output, "out.1"), "line\n");
  removeOutput(output);
  assert.deepEqual(fs.readdirSync(path.dirname(output)), []);
  assert.ok(!fs.existsSync(target));
});

test("deletes an output link whose target disappeared at a restart of the robot", (t) => {
  const root = temporaryDirectory(t);
  const output = path.join(root, "output/1");
  createOutput(output, root);
  fs.rmdirSync(fs.readlinkSync(output));
  removeOutput(output);
  assert.deepEqual(fs.readdirSync(path.dirname(output)), []);
});

test("keeps output on the disk if no directory in memory exists, or if other runs fill a quarter of that file system", (t) => {
  const root = temporaryDirectory(t);
  const memory = fs.mkdtempSync("/dev/shm/roamfleet-output-");
  t.after(() => fs.rmSync(memory, { recursive: true }));
  const { blocks, bsize } = fs.statfsSync(memory);
  const runs_max = Math.floor((blocks * bsize) / 4 / MEMORY_RUN_BYTES_MAX);
  for (let i = 0; i < runs_max; i += 1) fs.mkdirSync(path.join(memory, `output-${i}`));
  for (const [run, place] of [undefined, path.join(root, "missing"), memory].entries()) {
    const output = path.join(root, "output", String(run));
    assert.equal(createOutput(output, place), OUTPUT_FILE_BYTES);
    assert.ok(fs.lstatSync(output).isDirectory());
  }
  fs.rmdirSync(path.join(memory, "output-0"));
  assert.equal(createOutput(path.join(root, "output/9"), memory), MEMORY_FILE_BYTES);
});
