import fs from "node:fs";
import path from "node:path";
import { OUTPUT_FILE_BYTES, OUTPUT_FILES_MAX } from "./wrapper-script.ts";

/**
 * Size in bytes at which the wrapper begins the next file of a stream in memory. A file may be larger, but is smaller than twice this size.
 */
export const MEMORY_FILE_BYTES = 256 * 1024;
/** Maximum bytes of the output of one run in memory: two streams. */
export const MEMORY_RUN_BYTES_MAX = 2 * OUTPUT_FILES_MAX * 2 * MEMORY_FILE_BYTES;
/** Part of the file system in memory that the output of all runs may fill, because other programs use it, too. */
const MEMORY_SHARE = 1 / 4;
const PREFIX = "output-";

/**
 * Creates the directory for the output of a run. If `memory` is a directory on tmpfs with room for one more run, `output` becomes a symlink
 * to a new directory there. So an agent without a directory in memory finds the output, too. Throws if the disk is full. Returns the size
 * in bytes of each output file.
 */
export function createOutput(output: string, memory: string | undefined): number {
  fs.mkdirSync(path.dirname(output), { recursive: true, mode: 0o700 });
  const target = memory === undefined ? undefined : createInMemory(memory);
  if (target === undefined) {
    fs.mkdirSync(output, { mode: 0o700 });
    return OUTPUT_FILE_BYTES;
  }
  try {
    fs.symlinkSync(target, output);
  } catch (error) {
    fs.rmdirSync(target);
    throw error;
  }
  return MEMORY_FILE_BYTES;
}

function createInMemory(memory: string): string | undefined {
  try {
    const { blocks, bsize } = fs.statfsSync(memory);
    const runs = fs.readdirSync(memory).filter((name) => name.startsWith(PREFIX)).length;
    if ((runs + 1) * MEMORY_RUN_BYTES_MAX > blocks * bsize * MEMORY_SHARE) return undefined;
    return fs.mkdtempSync(path.join(memory, PREFIX));
  } catch {
    // The memory is full, or the directory is missing.
    return undefined;
  }
}

/** Deletes the output of a run. After a restart of the robot, the target of a link does not exist. */
export function removeOutput(output: string): void {
  let target: string | undefined;
  try {
    target = fs.readlinkSync(output);
  } catch {
    // The output is in a directory on the disk, not behind a link.
  }
  if (target !== undefined) fs.rmSync(target, { recursive: true, force: true });
  fs.rmSync(output, { recursive: true, force: true });
}
