import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { releaseOf } from "../testing/bundles.ts";
import { statePaths } from "./paths.ts";
import { checkTree, damagedEntry, recordTree } from "./staged-tree.ts";

const { release } = releaseOf("v1", Buffer.from("an archive"));

async function staged(t: TestContext) {
  const paths = statePaths(temporaryDirectory(t));
  const directory = paths.version("main", release.id);
  fs.mkdirSync(path.join(directory, "lib"), { recursive: true });
  fs.writeFileSync(path.join(directory, "lib", "words"), "words");
  fs.writeFileSync(path.join(directory, "__proto__"), "a file");
  fs.symlinkSync("lib/words", path.join(directory, "link"));
  await recordTree(paths, "main", release, directory);
  const [name] = fs.readdirSync(path.join(paths.app("main"), "trees"));
  return {
    directory,
    record: path.join(paths.app("main"), "trees", name!),
    check: () => checkTree(paths, "main", release, () => {}),
    damage: async () => [await damagedEntry(paths, "main", release, "quick"), await damagedEntry(paths, "main", release, "whole")],
  };
}

test("the quick check finds missing and truncated entries, the full check every change", async (t) => {
  const { directory, damage } = await staged(t);
  assert.deepEqual(await damage(), [undefined, undefined]);
  const words = path.join(directory, "lib", "words");
  fs.writeFileSync(words, "other");
  assert.deepEqual(await damage(), [undefined, "lib/words"]);
  fs.writeFileSync(words, "wor");
  assert.deepEqual(await damage(), ["lib/words", "lib/words"]);
  fs.writeFileSync(words, "words");
  fs.writeFileSync(path.join(directory, "added"), "by the program");
  assert.deepEqual(await damage(), [undefined, undefined]);
  for (const name of ["link", "__proto__"]) {
    fs.rmSync(path.join(directory, name));
    const found = await damage();
    assert.deepEqual(found.toSorted(), [found[0], found[0]]);
    assert.ok(found[0] === "link" || found[0] === "__proto__");
  }
});

test("a torn record counts as damage, a version without a record as intact", async (t) => {
  const { record, damage } = await staged(t);
  fs.truncateSync(record, 20);
  assert.deepEqual(await damage(), [path.basename(record), path.basename(record)]);
  fs.rmSync(record);
  assert.deepEqual(await damage(), [undefined, undefined]);
});

test("reads records of older agents, without sizes", async (t) => {
  const { directory, record, check, damage } = await staged(t);
  const { sizes: _, crc32: __, ...older } = JSON.parse(fs.readFileSync(record, "utf8")) as Record<string, unknown>;
  fs.writeFileSync(record, JSON.stringify(older));
  assert.deepEqual([await check(), await damage()], [undefined, [undefined, undefined]]);
  fs.truncateSync(path.join(directory, "lib", "words"), 1);
  assert.deepEqual(await damage(), [undefined, "lib/words"]);
  fs.rmSync(path.join(directory, "lib", "words"));
  assert.deepEqual(await damage(), ["lib/words", "lib/words"]);
});
