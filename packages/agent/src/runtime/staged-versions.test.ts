import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { statePaths } from "./paths.ts";
import { isStaged, pruneVersions, stageVersion } from "./staged-versions.ts";

const MODULES = ["@roamfleet/clock/failpoint", "./paths.ts", "./staged-versions.ts"].map((name) =>
  JSON.stringify(import.meta.resolve(name)),
);

test("a version whose removal was interrupted does not count as staged, and is staged again", { timeout: 120_000 }, async () => {
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
