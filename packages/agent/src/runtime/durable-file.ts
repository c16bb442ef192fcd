import fs from "node:fs";
import path from "node:path";
import { fileFailpoint, syncDirectory } from "../disk/write-atomically.ts";

/** Points a symlink to another target atomically, also across a power loss: it always exists. */
export function switchSymlink(link: string, target: string): void {
  const temporary = `${link}.tmp`;
  fs.rmSync(temporary, { force: true });
  const point = fileFailpoint(link);
  fs.symlinkSync(target, temporary);
  point?.("before-rename");
  fs.renameSync(temporary, link);
  point?.("after-rename");
  syncDirectory(path.dirname(link));
}

/** Returns the free bytes on the disk of `directory`. */
export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await fs.promises.statfs(directory);
  return bavail * bsize;
}
