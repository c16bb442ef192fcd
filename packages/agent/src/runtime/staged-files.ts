import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { writeAtomically } from "../disk/write-atomically.ts";

/** In each staged version: what was unpacked. */
const LIST_NAME = ".robofleet-files.json";

interface StagedFile {
  path: string;
  size: number;
  /** Absent for a symbolic link. */
  sha256?: string;
}

/** Writes down the files of a version that has just been unpacked, so that damage is found later. */
export async function listStagedFiles(directory: string): Promise<void> {
  const files: StagedFile[] = [];
  for (const entry of await fs.promises.readdir(directory, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name);
    const name = path.relative(directory, file);
    if (entry.isFile()) files.push({ path: name, size: (await fs.promises.stat(file)).size, sha256: await digestOf(file) });
    else if (entry.isSymbolicLink()) files.push({ path: name, size: 0 });
  }
  writeAtomically(path.join(directory, LIST_NAME), JSON.stringify(files));
}

/**
 * Returns the first file of a staged version that is damaged, undefined when there is none or the version has no list. `quick` finds missing and
 * truncated files only, as power loss leaves them: a program may change its own files while it runs. `whole` compares their contents.
 */
export async function damagedFile(directory: string, depth: "quick" | "whole"): Promise<string | undefined> {
  let files: StagedFile[];
  try {
    files = JSON.parse(await fs.promises.readFile(path.join(directory, LIST_NAME), "utf8")) as StagedFile[];
  } catch (error) {
    // Staged by an agent that wrote no list; a list that is torn is damage.
    return (error as NodeJS.ErrnoException).code === "ENOENT" && fs.existsSync(directory) ? undefined : LIST_NAME;
  }
  for (const file of files) if (await isDamaged(directory, file, depth)) return file.path;
  return undefined;
}

async function isDamaged(directory: string, { path: name, size, sha256 }: StagedFile, depth: "quick" | "whole"): Promise<boolean> {
  const file = path.join(directory, name);
  try {
    const stat = await fs.promises.lstat(file);
    if (sha256 === undefined) return false;
    if (stat.size < size) return true;
    return depth === "whole" && (await digestOf(file)) !== sha256;
  } catch {
    return true;
  }
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of fs.createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
