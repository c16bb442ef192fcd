import { lstat, mkdir, readdir, stat } from "node:fs/promises";
import path from "node:path";
import type { FileEntry } from "@roamfleet/protocol/link";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";
import type { ReconnectingSession } from "./file-session.ts";

/** A file in a directory tree. `inner` is its path relative to the root of the tree, separated by slashes. */
export interface TreeFile {
  inner: string;
  size: number;
}

export interface RobotFile extends TreeFile {
  mode: number;
  version: string;
}

export interface Tree<F extends TreeFile> {
  /** Directories below the root of the tree, parents first. */
  directories: { inner: string; mode: number }[];
  files: F[];
  /** Skipped entries with the reason. */
  skipped: string[];
}

const MODE_MASK = 0o777;

/** Lists a robot's directory recursively. Links to files count as files; links to directories are not followed. */
export async function readRobotTree(connection: ReconnectingSession, top: string): Promise<Tree<RobotFile>> {
  const tree: Tree<RobotFile> = { directories: [], files: [], skipped: [] };
  for (const waiting = [""]; waiting.length > 0;) {
    const inner = waiting.shift() ?? "";
    const { entries, unnamed } = await listDirectory(connection, path.posix.join(top, inner));
    if (unnamed > 0) tree.skipped.push(`${inner || "."}: ${unnamed} names are not valid UTF-8`);
    for (const { name, kind, size, mode, version } of entries) {
      const here = path.posix.join(inner, requireName(name));
      if (kind === "directory") {
        tree.directories.push({ inner: here, mode });
        waiting.push(here);
      } else if (kind === "file") tree.files.push({ inner: here, size, mode, version });
      else tree.skipped.push(`${here}: ${kind === "link" ? "a link to a directory, or a broken link" : "not a regular file"}`);
    }
  }
  return tree;
}

async function listDirectory(connection: ReconnectingSession, directory: string): Promise<{ entries: FileEntry[]; unnamed: number }> {
  return connection.run(async (session) => {
    const entries: FileEntry[] = [];
    await session.say({ type: "list", path: directory });
    for (;;) {
      const answer = await session.hear("entries", "listed");
      if (answer.type === "listed") return { entries, unnamed: answer.unnamed };
      entries.push(...answer.entries);
    }
  });
}

/** Throws a Failure for a name that would lead outside the target directory; a compromised robot could send one. */
export function requireName(name: unknown): string {
  if (typeof name !== "string" || name === "" || name === "." || name === ".." || /[/\0]/.test(name))
    throw new Failure(EXIT.error, `the robot sent an invalid file name: ${JSON.stringify(name)}`);
  return name;
}

/** Lists a directory of this machine recursively. Treats links like readRobotTree. */
export async function readLocalTree(top: string): Promise<Tree<TreeFile>> {
  const tree: Tree<TreeFile> = { directories: [], files: [], skipped: [] };
  for (const waiting = [""]; waiting.length > 0;) {
    const inner = waiting.shift() ?? "";
    for (const name of await readdir(path.join(top, inner))) {
      const here = path.posix.join(inner, name);
      const file = path.join(top, inner, name);
      const own = await lstat(file);
      const status = own.isSymbolicLink() ? await stat(file).catch(() => own) : own;
      if (own.isDirectory()) {
        tree.directories.push({ inner: here, mode: own.mode & MODE_MASK });
        waiting.push(here);
      } else if (status.isFile()) tree.files.push({ inner: here, size: status.size });
      else tree.skipped.push(`${here}: ${own.isSymbolicLink() ? "a link to a directory, or a broken link" : "not a regular file"}`);
    }
  }
  return tree;
}

/** Creates a directory on this machine if it does not exist. */
export async function makeLocalDirectory(directory: string, mode: number): Promise<void> {
  try {
    await mkdir(directory, { mode });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    if (!(await stat(directory)).isDirectory()) throw new Failure(EXIT.error, `${directory}: not a directory`);
  }
}
