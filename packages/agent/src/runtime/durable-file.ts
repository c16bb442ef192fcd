import fs from "node:fs";
import path from "node:path";
import { fileFailpoint } from "../disk/write-atomically.ts";

/** Makes renames and new names in this directory survive a power cut. */
export function syncDirectory(directory: string): void {
  const handle = fs.openSync(directory, "r");
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}

/**
 * Puts a file in place so that a reader, or a power cut at any instant, sees the old bytes or the new ones.
 * The temporary name is beside it: rename is atomic within one file system only.
 */
export function writeFileDurably(file: string, bytes: string | Uint8Array, mode = 0o644): void {
  const temporary = `${file}.tmp`;
  fs.rmSync(temporary, { force: true });
  const handle = fs.openSync(temporary, "wx", mode);
  const point = fileFailpoint(file);
  try {
    point?.("before-write", () => fs.writeFileSync(handle, bytes.slice(0, bytes.length / 2)));
    fs.writeFileSync(handle, bytes);
    // The mode of openSync is cut by the umask.
    fs.fchmodSync(handle, mode);
    fs.fsyncSync(handle);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  } finally {
    fs.closeSync(handle);
  }
  point?.("before-rename");
  fs.renameSync(temporary, file);
  point?.("after-rename");
  syncDirectory(path.dirname(file));
}

/** Points a symlink elsewhere in one step: there is no instant without it. */
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

/** Bytes that may still be written below `directory`. */
export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await fs.promises.statfs(directory);
  return bavail * bsize;
}
