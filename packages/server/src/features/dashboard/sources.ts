import { createHash } from "node:crypto";
import { type Dirent, existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";

/** Root directory of the repository that this server runs from. */
export const CLONE = path.resolve(import.meta.dirname, "../../../../..");

/** Files and folders of the repository that the build of the dashboard depends on. */
const INPUTS = [
  "package-lock.json",
  "packages/dashboard/build.ts",
  "packages/dashboard/index.html",
  "packages/dashboard/package.json",
  "packages/dashboard/public",
  "packages/dashboard/src",
  "packages/dashboard/vite.config.ts",
  "packages/clock/src",
  "packages/protocol/src",
  "packages/sdk/src",
];
const DIGEST_CHARACTERS = 32;

/** Whether the dashboard can be built here. It cannot where only the server was installed. */
export const hasSources = (clone: string): boolean => existsSync(path.join(clone, "packages/dashboard/src"));

/**
 * Returns a digest of the names and contents of all inputs of the build. Modification times are not reliable after
 * `git checkout`. 600 files take 25 ms.
 */
export async function digestSources(clone: string): Promise<string> {
  const files = (await Promise.all(INPUTS.map((input) => filesOf(clone, input)))).flat().toSorted();
  const contents = await Promise.all(files.map((file) => readFile(path.join(clone, file))));
  const digest = createHash("sha256");
  for (const [index, file] of files.entries()) {
    const content = contents[index] as Buffer;
    digest.update(`${file}\0${content.length}\0`).update(content);
  }
  return digest.digest("hex").slice(0, DIGEST_CHARACTERS);
}

async function filesOf(clone: string, input: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(path.join(clone, input), { withFileTypes: true, recursive: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOTDIR") return [input];
    if (code === "ENOENT") return [];
    throw error;
  }
  return entries
    .filter((entry) => entry.isFile() && !/\.test\.tsx?$/.test(entry.name))
    .map((entry) => path.relative(clone, path.join(entry.parentPath, entry.name)));
}
