import {
  closeSync,
  constants,
  copyFileSync,
  fchmodSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { failpoint, failpointsArmed, tornFailpoint } from "@roamfleet/clock/failpoint";

/** Makes the entries of a directory (files made, renamed, removed) survive power loss. */
export function syncDirectory(directory: string): void {
  syncFile(directory);
}

/** Makes the bytes of a file, and the mode that it gets before, survive power loss. */
export function syncFile(path: string, mode?: number): void {
  const handle = openSync(path, "r");
  try {
    if (mode !== undefined) fchmodSync(handle, mode);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Makes a directory and its parents, so that they survive power loss with what is put into them; by default for this user only. */
export function makeDirectory(directory: string, mode = 0o700): void {
  const first = mkdirSync(directory, { recursive: true, mode });
  if (first === undefined) return;
  // The name of each new directory stands in its parent.
  const top = dirname(resolve(first));
  for (let parent = dirname(resolve(directory)); ; parent = dirname(parent)) {
    syncDirectory(parent);
    if (parent === top) return;
  }
}

/** Gives a file or directory, which is on the disk already, another name that survives power loss. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  syncDirectory(dirname(to));
  if (dirname(from) !== dirname(to)) syncDirectory(dirname(from));
}

/** Removes a file so that it does not come back when the power goes. */
export function removeDurably(path: string): void {
  rmSync(path, { force: true });
  syncDirectory(dirname(path));
}

/**
 * Replaces a file wholly or not at all, also when the power goes: temporary file beside it, fsync, rename, fsync of the
 * directory. The one way in which the agent writes a file that must survive; journals and spools append instead.
 */
export function writeAtomically(path: string, content: string | Uint8Array, mode = 0o600): void {
  const temporary = `${path}.tmp`;
  rmSync(temporary, { force: true });
  const handle = openSync(temporary, "wx", mode);
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  const point = fileFailpoint(path);
  try {
    point?.("before-write", () => writeWhole(handle, bytes.subarray(0, bytes.length / 2)));
    writeWhole(handle, bytes);
    // The mode of openSync is cut by the umask.
    fchmodSync(handle, mode);
    fsyncSync(handle);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(handle);
  }
  point?.("before-rename");
  renameSync(temporary, path);
  point?.("after-rename");
  syncDirectory(dirname(path));
}

/** As `writeAtomically`, with the bytes and the mode of another file, of whatever size. */
export function copyAtomically(from: string, to: string): void {
  const temporary = `${to}.tmp`;
  rmSync(temporary, { force: true });
  try {
    copyFileSync(from, temporary, constants.COPYFILE_EXCL);
    syncFile(temporary);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  const point = fileFailpoint(to);
  point?.("before-rename");
  renameSync(temporary, to);
  point?.("after-rename");
  syncDirectory(dirname(to));
}

/** The failpoints of writing a file, named after it without the parts that differ from run to run; undefined when none are armed. */
export function fileFailpoint(
  path: string,
): ((stage: "before-write" | "before-rename" | "after-rename", tear?: () => void) => void) | undefined {
  if (!failpointsArmed()) return undefined;
  const name = `file.${basename(path).replace(/\d{4,}|[0-9a-f]{16,}|_[0-9A-Za-z]{12,}/g, "N")}`;
  return (stage, tear) => {
    failpoint(`${name}:${stage}`, "file");
    if (tear !== undefined) tornFailpoint(`${name}:torn-write`, "file", tear);
  };
}

/** writeSync may write a part only; answers when all of it is written. */
export function writeWhole(handle: number, bytes: Uint8Array): void {
  let written = 0;
  while (written < bytes.length) written += writeSync(handle, bytes, written);
}

/** Replaces a JSON file by this object and its checksum, which stands in it as `crc32`. */
export function writeJson(path: string, value: object): void {
  writeAtomically(path, `${JSON.stringify({ ...value, crc32: checksum(value) }, null, 2)}\n`);
}

const checksum = (value: object): string => crc32(JSON.stringify(value)).toString(16).padStart(8, "0");

/**
 * The parsed content of a JSON file; undefined when it is absent, and when it is torn or not what its checksum says, of which
 * `damaged` is told.
 */
export function readJson(path: string, damaged: () => void = () => {}): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    return withoutChecksum(JSON.parse(text));
  } catch {
    damaged();
    return undefined;
  }
}

/** Throws when the checksum is another one; what has none is taken as it is. */
function withoutChecksum(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("crc32" in value)) return value;
  const { crc32: expected, ...rest } = value;
  if (checksum(rest) !== expected) throw new Error("the checksum is another one");
  return rest;
}

export function isMissing(error: unknown): boolean {
  return errorCode(error) === "ENOENT";
}

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** An error in few words for a log field: never a stack. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A refused connection to a name with several addresses has an empty message of its own.
  const inner = error instanceof AggregateError ? error.errors[0] : undefined;
  return error.message || (inner instanceof Error ? inner.message : (errorCode(error) ?? error.name));
}
