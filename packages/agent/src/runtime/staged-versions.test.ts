import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { statePaths } from "./paths.ts";
import { checkTree, damagedEntry, isStaged, pruneVersions, recordTree, stageVersion } from "./staged-versions.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { releaseOf } from "../testing/bundles.ts";

const MODULES = ["@roamfleet/clock/failpoint", "./paths.ts", "./staged-versions.ts"].map((name) =>
  JSON.stringify(import.meta.resolve(name)),
);

test("a staged version whose removal was interrupted counts as not staged", { timeout: 120_000 }, async () => {
  const state = mkdtempSync(path.join(tmpdir(), "roamfleet-staged-"));
  try {
    const paths = statePaths(state);
    const fill = async (directory: string): Promise<void> => {
      mkdirSync(directory);
      for (const name of ["data", "program", "roamfleet.json"]) writeFileSync(path.join(directory, name), name);
    };
    await stageVersion(paths, "main", "rel_old", fill);
    await stageVersion(paths, "main", "rel_new", fill);
    const script = `
      const { armFailpoints } = await import(${MODULES[0]});
      const { statePaths } = await import(${MODULES[1]});
      const { pruneVersions } = await import(${MODULES[2]});
      armFailpoints({ spec: "prune:torn-removal", log_file: ${JSON.stringify(path.join(state, "points.log"))} });
      pruneVersions(statePaths(${JSON.stringify(state)}), "main", ["rel_new"]);`;
    const { signal, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8", timeout: 60_000 });
    assert.equal(signal, "SIGKILL", stderr);
    assert.match(readFileSync(path.join(state, "points.log"), "utf8"), /"killed"/);
    assert.equal(isStaged(paths, "main", "rel_old"), false);
    assert.equal(isStaged(paths, "main", "rel_new"), true);
    await stageVersion(paths, "main", "rel_old", fill);
    assert.deepEqual(readdirSync(paths.version("main", "rel_old")).toSorted(), ["data", "program", "roamfleet.json"]);
    pruneVersions(paths, "main", ["rel_new"]);
    assert.deepEqual(readdirSync(paths.versions("main")), ["rel_new"]);
    assert.equal(existsSync(paths.version("main", "rel_old")), false);
  } finally {
    rmSync(state, { recursive: true, force: true });
  }
});

test("completes an interrupted replacement of a staged version after a restart", { timeout: 120_000 }, async () => {
  const state = mkdtempSync(path.join(tmpdir(), "roamfleet-staged-"));
  try {
    const paths = statePaths(state);
    const script = `
      const { mkdirSync, writeFileSync } = await import("node:fs");
      const { armFailpoints } = await import(${MODULES[0]});
      const { statePaths } = await import(${MODULES[1]});
      const { stageVersion } = await import(${MODULES[2]});
      armFailpoints({ spec: "stage:between-renames", log_file: ${JSON.stringify(path.join(state, "points.log"))} });
      for (const text of ["damaged", "complete"])
        await stageVersion(statePaths(${JSON.stringify(state)}), "main", "rel_1", async (directory) => {
          mkdirSync(directory);
          writeFileSync(directory + "/data", text);
        });`;
    const { signal, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8", timeout: 60_000 });
    assert.equal(signal, "SIGKILL", stderr);
    assert.equal(existsSync(paths.version("main", "rel_1")), false);
    pruneVersions(paths, "main", ["rel_1"]);
    assert.equal(isStaged(paths, "main", "rel_1"), true);
    assert.equal(readFileSync(path.join(paths.version("main", "rel_1"), "data"), "utf8"), "complete");
    assert.deepEqual(readdirSync(paths.versions("main")), ["rel_1"]);
    mkdirSync(`${paths.version("main", "rel_1")}.complete/left`, { recursive: true });
    await stageVersion(paths, "main", "rel_1", async (directory) => {
      mkdirSync(directory);
      writeFileSync(path.join(directory, "data"), "newest");
    });
    assert.equal(readFileSync(path.join(paths.version("main", "rel_1"), "data"), "utf8"), "newest");
    assert.deepEqual(readdirSync(paths.versions("main")), ["rel_1"]);
  } finally {
    rmSync(state, { recursive: true, force: true });
  }
});

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

test("the quick check finds missing or truncated staged files, the full check also changed files", async (t) => {
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

test("a truncated file record marks a staged version as damaged, a missing record does not", async (t) => {
  const { record, damage } = await staged(t);
  fs.truncateSync(record, 20);
  assert.deepEqual(await damage(), [path.basename(record), path.basename(record)]);
  fs.rmSync(record);
  assert.deepEqual(await damage(), [undefined, undefined]);
});

test("reads the file records of older agents, which have no sizes", async (t) => {
  const { directory, record, check, damage } = await staged(t);
  const { sizes: _, crc32: __, ...older } = JSON.parse(fs.readFileSync(record, "utf8")) as Record<string, unknown>;
  fs.writeFileSync(record, JSON.stringify(older));
  assert.deepEqual([await check(), await damage()], [undefined, [undefined, undefined]]);
  fs.truncateSync(path.join(directory, "lib", "words"), 1);
  assert.deepEqual(await damage(), [undefined, "lib/words"]);
  fs.rmSync(path.join(directory, "lib", "words"));
  assert.deepEqual(await damage(), ["lib/words", "lib/words"]);
});
