import fs from "node:fs";
import path from "node:path";
import { createHash } from "node:crypto";
import { failpoint, tornFailpoint } from "@roamfleet/clock/failpoint";
import { encodeFileName } from "@roamfleet/protocol";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { makeDirectory, readJson, renameDurably, writeJson } from "../disk/write-atomically.ts";
import type { StatePaths } from "./paths.ts";

/** Returns whether the version was staged completely. Its directory gets its final name only after all of its content is on disk. */
export const isStaged = (paths: StatePaths, app: string, release_id: string): boolean =>
  fs.existsSync(recoverVersion(paths, app, release_id));

/**
 * Returns the directory of a version. First completes a replacement that was interrupted between its two renames. Until the damaged version
 * is moved away, the complete copy has a different name.
 */
export function recoverVersion(paths: StatePaths, app: string, release_id: string): string {
  const directory = paths.version(app, release_id);
  const complete = completeCopy(directory);
  if (!fs.existsSync(complete)) return directory;
  const damaged = `${directory}.damaged.tmp`;
  fs.rmSync(damaged, { recursive: true, force: true });
  if (fs.existsSync(directory)) renameDurably(directory, damaged);
  failpoint("stage:between-renames", "file");
  renameDurably(complete, directory);
  fs.rmSync(damaged, { recursive: true, force: true });
  return directory;
}

const completeCopy = (directory: string): string => `${directory}.complete`;

/** Calls `fill` to write a version into a temporary directory, then renames the directory atomically to its final name. */
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
  // Delete the complete copy that an interrupted replacement left, since the new version replaces it.
  fs.rmSync(completeCopy(directory), { recursive: true, force: true });
  renameDurably(temporary, fs.existsSync(directory) ? completeCopy(directory) : directory);
  recoverVersion(paths, app, release_id);
  failpoint("stage:after-rename", "file");
}

/**
 * Deletes all versions except these. Each version is renamed before it is deleted, since a partly deleted version must not count as staged.
 */
export function pruneVersions(paths: StatePaths, app: string, keep: readonly string[]): void {
  pruneTrees(paths, app, keep);
  const directory = paths.versions(app);
  if (!fs.existsSync(directory)) return;
  for (const id of keep) recoverVersion(paths, app, id);
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

/** Removes only the first entry of a directory. Simulates a removal that was interrupted. */
function removeFirst(directory: string): void {
  const [first] = fs.readdirSync(directory);
  if (first !== undefined) fs.rmSync(path.join(directory, first), { recursive: true });
}

interface TreeRecord {
  /** Digest of the archive from which the version was unpacked. The release's signature contains this digest. */
  artifact_sha256: string;
  /**
   * The entries of a staged version by relative path. Values: `d` for a directory; `l` and the target for a link; `f`, the mode and the
   * SHA-256 for a file.
   */
  tree: Record<string, string>;
  /** Size of each file in bytes; absent from records of older agents. */
  sizes?: Record<string, number>;
}

const MODE_MASK = 0o777;

const recordFile = (paths: StatePaths, app: string, release_id: string): string =>
  path.join(paths.app(app), "trees", `${encodeFileName(release_id)}.json`);

/** Records the contents of a directory that was just unpacked from the release's verified archive. */
export async function recordTree(paths: StatePaths, app: string, release: DesiredRelease, directory: string): Promise<void> {
  const file = recordFile(paths, app, release.id);
  makeDirectory(path.dirname(file));
  writeJson(file, { artifact_sha256: release.artifact_sha256, ...(await readTree(directory)) } satisfies TreeRecord);
}

function pruneTrees(paths: StatePaths, app: string, keep: readonly string[]): void {
  const directory = path.join(paths.app(app), "trees");
  if (!fs.existsSync(directory)) return;
  const kept = new Set(keep.map((id) => `${encodeFileName(id)}.json`));
  for (const name of fs.readdirSync(directory)) if (!kept.has(name)) fs.rmSync(path.join(directory, name), { force: true });
}

/**
 * Returns the first damaged entry of a staged version; undefined if there is none or no record exists. `quick` detects only missing and
 * truncated entries, which a power loss may cause; it ignores other changes, since a program may change its own files. `whole` compares
 * each entry completely.
 */
export async function damagedEntry(
  paths: StatePaths,
  app: string,
  release: DesiredRelease,
  depth: "quick" | "whole",
): Promise<string | undefined> {
  let is_torn = false;
  const file = recordFile(paths, app, release.id);
  const record = readJson(file, () => (is_torn = true)) as TreeRecord | undefined;
  if (is_torn) return path.basename(file);
  const directory = paths.version(app, release.id);
  for (const [name, recorded] of Object.entries(record?.tree ?? {})) {
    const found = path.join(directory, name);
    const stats = await fs.promises.lstat(found).catch(() => undefined);
    if (stats === undefined || stats.size < (record?.sizes?.[name] ?? 0)) return name;
    if (depth === "whole" && (await describe(found, stats).catch(() => undefined)) !== recorded) return name;
  }
  return undefined;
}

/**
 * Compares a staged version with its record. Deletes entries that are not in the release, since an interpreter could load them, and passes
 * their names to `removed`. Returns why the version differs from the signed one; undefined if it does not.
 */
export async function checkTree(
  paths: StatePaths,
  app: string,
  release: DesiredRelease,
  removed: (names: string[]) => void,
): Promise<string | undefined> {
  const record = readJson(recordFile(paths, app, release.id)) as Partial<TreeRecord> | undefined;
  if (record?.artifact_sha256 !== release.artifact_sha256 || typeof record.tree !== "object")
    return "there is no record of what was staged";
  const directory = paths.version(app, release.id);
  const found = (await readTree(directory).catch(() => undefined))?.tree;
  if (found === undefined) return "the staged files cannot be read";
  const changed = Object.keys(record.tree).find((name) => found[name] !== record.tree?.[name]);
  if (changed !== undefined) return `${changed} differs from the release`;
  const extra = Object.keys(found).filter((name) => record.tree?.[name] === undefined);
  for (const name of extra) fs.rmSync(path.join(directory, name), { recursive: true, force: true });
  if (extra.length > 0) removed(extra);
  return undefined;
}

async function readTree(directory: string): Promise<Required<Omit<TreeRecord, "artifact_sha256">>> {
  // Use objects without a prototype, since a file may be named __proto__.
  const tree = Object.create(null) as Record<string, string>;
  const sizes = Object.create(null) as Record<string, number>;
  for (const name of (await fs.promises.readdir(directory, { recursive: true })).toSorted()) {
    const file = path.join(directory, name);
    const stats = await fs.promises.lstat(file);
    tree[name] = await describe(file, stats);
    if (stats.isFile()) sizes[name] = stats.size;
  }
  return { tree, sizes };
}

async function describe(file: string, stats: fs.Stats): Promise<string> {
  if (stats.isDirectory()) return "d";
  if (stats.isSymbolicLink()) return `l ${await fs.promises.readlink(file)}`;
  if (!stats.isFile()) return "other";
  return `f ${(stats.mode & MODE_MASK).toString(8)} ${await digestOf(file)}`;
}

/** Returns the SHA-256 of a file in hex. */
export async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of fs.createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
