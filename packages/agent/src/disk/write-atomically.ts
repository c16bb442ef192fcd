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
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { failpoint, failpointsArmed, tornFailpoint } from "@roamfleet/clock/failpoint";
import { fieldsOf } from "../json.ts";

/** Makes the creation, renaming or removal of files in a directory durable. */
export function syncDirectory(directory: string): void {
  syncFile(directory);
}

/** Sets the mode of a file, if given, then makes its content and mode durable. */
export function syncFile(path: string, mode?: number): void {
  const handle = openSync(path, "r");
  try {
    if (mode !== undefined) fchmodSync(handle, mode);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Creates a directory and its parents durably; by default for this user only. */
export function makeDirectory(directory: string, mode = 0o700): void {
  const first = mkdirSync(directory, { recursive: true, mode });
  if (first === undefined) return;
  // Sync the parent of each new directory, since the parent contains the entry that names it.
  const top = dirname(resolve(first));
  for (let parent = dirname(resolve(directory)); ; parent = dirname(parent)) {
    syncDirectory(parent);
    if (parent === top) return;
  }
}

/** Renames a file or directory durably. Its content must already be on disk. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  syncDirectory(dirname(to));
  if (dirname(from) !== dirname(to)) syncDirectory(dirname(from));
}

/** Removes a file durably. */
export function removeDurably(path: string): void {
  rmSync(path, { force: true });
  syncDirectory(dirname(path));
}

/**
 * Replaces a file completely or not at all, even if the power fails. Writes a temporary file beside it, fsyncs it, renames it, and fsyncs
 * the directory. The agent writes all its durable files with this function, except journals and spools, which are appended to.
 */
export function writeAtomically(path: string, content: string | Uint8Array, mode = 0o600): void {
  replaceBy(path, (temporary, point) => {
    const handle = openSync(temporary, "wx", mode);
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    try {
      point?.("before-write", () => writeWhole(handle, bytes.subarray(0, bytes.length / 2)));
      writeWhole(handle, bytes);
      // The umask may have reduced the mode that openSync was called with, so set the mode here.
      fchmodSync(handle, mode);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  });
}

/** Replaces a JSON file without fsync: the new content survives the end of this process, but perhaps not a power loss. */
export function writeQuickly(path: string, value: object): void {
  replaceFile(path, (temporary) => writeFileSync(temporary, jsonText(value), { mode: 0o600, flag: "wx" }));
}

/** Like `writeAtomically`, but copies the content and the mode of another file, which may have any size. */
export function copyAtomically(from: string, to: string): void {
  replaceBy(to, (temporary) => {
    copyFileSync(from, temporary, constants.COPYFILE_EXCL);
    syncFile(temporary);
  });
}

/** Points a symlink to another target atomically: a reader finds either the old or the new target. */
export function switchSymlink(link: string, target: string): void {
  replaceBy(link, (temporary) => symlinkSync(target, temporary));
}

function replaceBy(path: string, create: (temporary: string, point: FilePoint | undefined) => void): void {
  replaceFile(path, create);
  syncDirectory(dirname(path));
}

function replaceFile(path: string, create: (temporary: string, point: FilePoint | undefined) => void): void {
  const temporary = `${path}.tmp`;
  rmSync(temporary, { force: true });
  const point = filePoint(path);
  try {
    create(temporary, point);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  point?.("before-rename");
  renameSync(temporary, path);
  point?.("after-rename");
}

type FilePoint = (stage: "before-write" | "before-rename" | "after-rename", tear?: () => void) => void;

/**
 * Returns the failpoints for writing a file; undefined if none are armed. Their names are derived from the file's path, without parts that
 * differ between runs.
 */
function filePoint(path: string): FilePoint | undefined {
  if (!failpointsArmed()) return undefined;
  const name = `file.${basename(path).replace(/\d{4,}|[0-9a-f]{16,}|_[0-9A-Za-z]{12,}/g, "N")}`;
  return (stage, tear) => {
    failpoint(`${name}:${stage}`, "file");
    if (tear !== undefined) tornFailpoint(`${name}:torn-write`, "file", tear);
  };
}

/** Writes all bytes: writeSync may write only a part. */
export function writeWhole(handle: number, bytes: Uint8Array): void {
  let written = 0;
  while (written < bytes.length) written += writeSync(handle, bytes, written);
}

/** Replaces a JSON file by this object with an added checksum field, `crc32`. */
export function writeJson(path: string, value: object): void {
  writeAtomically(path, jsonText(value));
}

const jsonText = (value: object): string => `${JSON.stringify({ ...value, crc32: checksum(JSON.stringify(value)) }, null, 2)}\n`;

/** CRC-32 as 8 hex digits. */
export const checksum = (text: string): string => crc32(text).toString(16).padStart(8, "0");

/**
 * Returns the parsed content of a JSON file; undefined if it is absent, torn, or has a wrong checksum. In the last two cases it calls
 * `damaged`.
 */
export function readJson(path: string, damaged: () => void = () => {}): unknown {
  const text = readIfExists(path);
  if (text === undefined) return undefined;
  try {
    return withoutChecksum(JSON.parse(text.toString("utf8")));
  } catch {
    damaged();
    return undefined;
  }
}

/** Checks and removes the checksum. Throws if it is wrong; returns a value without a checksum unchanged. */
function withoutChecksum(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("crc32" in value)) return value;
  const { crc32: expected, ...rest } = value;
  if (checksum(JSON.stringify(rest)) !== expected) throw new Error("wrong checksum");
  return rest;
}

/** Returns the content of a file; undefined if it does not exist. */
export function readIfExists(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

export const isMissing = (error: unknown): boolean => errorCode(error) === "ENOENT";

export function errorCode(error: unknown): string | undefined {
  const { code } = fieldsOf(error);
  return typeof code === "string" ? code : undefined;
}

/** Returns a short description of an error for a log field, never its stack. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A refused connection to a host name with several addresses has an empty message, so use the first inner error.
  const inner = error instanceof AggregateError ? error.errors[0] : undefined;
  return error.message || (inner instanceof Error ? inner.message : (errorCode(error) ?? error.name));
}

export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}
