import fs from "node:fs";
import path from "node:path";
import { failpoint, tornFailpoint } from "@roamfleet/clock/failpoint";
import { makeDirectory, renameDurably } from "../disk/write-atomically.ts";
import { encodeFileName } from "@roamfleet/protocol";
import type { StatePaths } from "./paths.ts";
import { pruneTrees } from "./staged-tree.ts";

/** True if the version was staged completely: its directory is renamed only after everything in it is on disk. */
export const isStaged = (paths: StatePaths, app: string, release_id: string): boolean => fs.existsSync(paths.version(app, release_id));

/** Fills a temporary directory beside the versions, then renames it atomically. */
export async function stageVersion(
  paths: StatePaths,
  app: string,
  release_id: string,
  fill: (directory: string) => Promise<void>,
): Promise<void> {
  makeDirectory(paths.versions(app), 0o755);
  const directory = paths.version(app, release_id);
  const temporary = `${directory}.tmp`;
  fs.rmSync(temporary, { recursive: true, force: true });
  try {
    failpoint("stage:before-fill", "step");
    await fill(temporary);
    failpoint("stage:before-rename", "file");
  } catch (error) {
    fs.rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
  // A damaged version is moved away before the complete one gets its name.
  const damaged = `${directory}.damaged.tmp`;
  fs.rmSync(damaged, { recursive: true, force: true });
  if (fs.existsSync(directory)) renameDurably(directory, damaged);
  renameDurably(temporary, directory);
  fs.rmSync(damaged, { recursive: true, force: true });
  failpoint("stage:after-rename", "file");
}

/** Deletes all versions except these. A version is renamed first: a partly deleted one must not count as staged. */
export function pruneVersions(paths: StatePaths, app: string, keep: readonly string[]): void {
  pruneTrees(paths, app, keep);
  const directory = paths.versions(app);
  if (!fs.existsSync(directory)) return;
  const kept = new Set(keep.map(encodeFileName));
  for (const name of fs.readdirSync(directory)) {
    if (kept.has(name)) continue;
    failpoint("prune:before-version", "file");
    const version = path.join(directory, name);
    const aside = name.endsWith(".tmp") ? version : `${version}.tmp`;
    if (aside !== version) {
      fs.rmSync(aside, { recursive: true, force: true });
      renameDurably(version, aside);
    }
    tornFailpoint("prune:torn-removal", "file", () => removeFirst(aside));
    fs.rmSync(aside, { recursive: true, force: true });
    failpoint("prune:after-version", "file");
  }
}

/** Removes the first entry only, like an interrupted removal. */
function removeFirst(directory: string): void {
  const [first] = fs.readdirSync(directory);
  if (first !== undefined) fs.rmSync(path.join(directory, first), { recursive: true });
}
