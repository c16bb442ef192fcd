import { createHash, hash as hashOf } from "node:crypto";
import { constants } from "node:fs";
import { access, type FileHandle, lstat, open, realpath, rename, unlink } from "node:fs/promises";
import path from "node:path";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";
import { type FileResult, type FileSession, RobotRefused, type ReconnectingSession } from "./file-session.ts";

const MODE_MASK = 0o777;
const PART_MODE = 0o600;
const HASH_BYTES = 1024 * 1024;
/** Maximum attempts to read a file that changes during each attempt. */
const TRIES_MAX = 3;

export interface Download {
  robot_id: string;
  /** Path on the robot. */
  path: string;
  size: number;
  mode: number;
  version: string;
  /** Path on this machine. */
  target: string;
  /** Called with the progress of the file. */
  on_bytes: (done: number) => void;
}

/**
 * Copies one file from a robot. Received bytes go to a part file beside the target, from which the next call resumes. A complete file with
 * a valid checksum replaces the target atomically.
 */
export async function download(connection: ReconnectingSession, copy: Download): Promise<FileResult> {
  const target = await targetOf(copy.target);
  for (let tries = 1; ; tries += 1) {
    try {
      return await downloadVersion(connection, { ...copy, target });
    } catch (error) {
      if (!(error instanceof RobotRefused) || error.code !== "changed" || tries === TRIES_MAX) throw error;
      const seen = await connection.run((session) => session.ask({ type: "stat", path: copy.path }, "stat"));
      copy = { ...copy, size: seen.size, mode: seen.mode, version: seen.version };
    }
  }
}

/** Resolves symbolic links in the target's path, as scp does. Throws if the target exists and is not a writable regular file. */
async function targetOf(file: string): Promise<string> {
  const real = await realpath(file).catch(() => file);
  const there = await lstat(real).catch(() => undefined);
  if (there !== undefined) {
    if (!there.isFile()) throw new Failure(EXIT.error, `${file}: not a regular file`);
    await access(real, constants.W_OK);
  }
  return real;
}

async function downloadVersion(connection: ReconnectingSession, copy: Download): Promise<FileResult> {
  const there = await lstat(copy.target).catch(() => undefined);
  if (there?.isFile() === true && there.size === copy.size) {
    const same = await isSame(connection, copy);
    if (same !== undefined) return same;
  }
  const { robot_id, path: remote, version, target } = copy;
  const name = hashOf("sha256", [robot_id, remote, version, path.basename(target)].join("\0")).slice(0, 24);
  const part = path.join(path.dirname(target), `.rf-${name}.part`);
  const file = await open(part, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, PART_MODE);
  try {
    const moved = await connection.run((session) => fetchRest(session, connection, copy, file));
    await file.chmod(copy.mode & MODE_MASK & ~process.umask());
    await file.sync();
    await rename(part, target);
    return moved;
  } catch (error) {
    if (error instanceof RobotRefused || error instanceof WrongChecksum || isFull(error)) await unlink(part).catch(() => {});
    throw error;
  } finally {
    await file.close();
  }
}

const isFull = (error: unknown): boolean => ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");

class WrongChecksum extends Failure {
  constructor(file: string) {
    super(EXIT.error, `${file}: the received data has a wrong checksum; nothing was written`);
  }
}

/** Returns the result if the target already has the robot's content, otherwise undefined. Requests only the hash of the robot's file. */
async function isSame(connection: ReconnectingSession, copy: Download): Promise<FileResult | undefined> {
  const file = await open(copy.target, constants.O_RDONLY);
  try {
    const sha256 = (await hashPart(file, copy.size)).digest("hex");
    const moved = await connection.run(async (session) => {
      await session.ask({ type: "read", path: copy.path, offset: copy.size, version: copy.version }, "reading");
      return session.hear("done");
    });
    if (moved.sha256 !== sha256) return undefined;
    copy.on_bytes(copy.size);
    return { bytes: copy.size, moved: 0, sha256, unchanged: true };
  } finally {
    await file.close();
  }
}

async function hashPart(file: FileHandle, bytes: number): Promise<ReturnType<typeof createHash>> {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafe(Math.min(HASH_BYTES, Math.max(1, bytes)));
  for (let at = 0; at < bytes;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash;
}

async function fetchRest(session: FileSession, connection: ReconnectingSession, copy: Download, file: FileHandle): Promise<FileResult> {
  const { size } = await file.stat();
  const offset = size <= copy.size ? size : 0;
  if (offset < size) await file.truncate(0);
  const hash = await hashPart(file, offset);
  await session.ask({ type: "read", path: copy.path, offset, version: copy.version }, "reading");
  connection.answered();
  copy.on_bytes(offset);
  for (let at = offset; ;) {
    const next = await session.next();
    if (!Buffer.isBuffer(next)) {
      if (next.type !== "done") throw new Error(`the robot sent ${next.type} in the middle of a file`);
      if (hash.digest("hex") !== next.sha256 || at !== next.bytes) {
        // Truncate the part file, because its bytes may belong to different content. The download then starts from the beginning.
        await file.truncate(0);
        if (offset > 0) return fetchRest(session, connection, copy, file);
        throw new WrongChecksum(copy.target);
      }
      return { bytes: at, moved: at - offset, sha256: next.sha256, unchanged: false };
    }
    hash.update(next);
    for (let written = 0; written < next.length;) {
      const { bytesWritten } = await file.write(next, written, next.length - written, at + written);
      written += bytesWritten;
    }
    at += next.length;
    copy.on_bytes(at);
    connection.progressed();
  }
}
