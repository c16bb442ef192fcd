import { createHash, hash as hashOf } from "node:crypto";
import { constants } from "node:fs";
import { access, type FileHandle, lstat, open, readdir, rename, unlink } from "node:fs/promises";
import path from "node:path";
import { readMessage } from "@roamfleet/protocol/link";
import {
  FileRefused,
  type FileRoom,
  findTarget,
  type MessagePort,
  openRegular,
  type Place,
  PortClosed,
  refusalOf,
  requireRegular,
  answer,
} from "./place.ts";
import { freeBytes } from "../../disk/write-atomically.ts";
import { hashPart } from "../../runtime/byte-reader.ts";

const MODE_MASK = 0o777;
const PART_MODE = 0o600;
const PART_NAME = /^\.rf-[0-9a-f]{24}\.part$/;
/** Number of bytes after which progress is reported again. */
const PROGRESS_BYTES = 512 * 1024;
/** Time in milliseconds after which a partial file that was not resumed is deleted. */
const PART_KEPT_MS = 7 * 24 * 60 * 60 * 1_000;

interface WriteRequest {
  path: unknown;
  size: unknown;
  sha256: unknown;
  mode: unknown;
}

interface Wanted {
  size: number;
  sha256: string;
  mode: number;
}

export class FileWriter {
  readonly #room: FileRoom;
  readonly #now: () => number;
  /** Directories in which old partial files have already been deleted. */
  readonly #tidied = new Set<string>();

  /** `now` returns the time in milliseconds since 1970. */
  constructor(room: FileRoom, now: () => number) {
    this.#room = room;
    this.#now = now;
  }

  /**
   * Receives a file. Writes the received bytes to a partial file beside the target. Once the file is complete and its digest is correct, it
   * atomically replaces the target. Resumes the partial file of an interrupted write.
   */
  async answerWrite(port: MessagePort, request: WriteRequest): Promise<void> {
    const wanted = wantedOf(request);
    await using place = await findTarget(request.path, this.#room);
    if (await keepWhatIsThere(place, this.#room, wanted))
      return await answer(port, { type: "done", path: place.path, bytes: wanted.size, moved: 0, sha256: wanted.sha256, unchanged: true });
    await this.#tidy(place);
    const part = partName(place, wanted);
    await using file = await open(place.beside(part), constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, PART_MODE);
    await take(port, place, part, file, wanted);
  }

  async #tidy(place: Place): Promise<void> {
    if (this.#tidied.has(place.directory)) return;
    this.#tidied.add(place.directory);
    const names = await readdir(place.beside(".")).catch(() => []);
    for (const name of names) {
      if (!PART_NAME.test(name)) continue;
      const stats = await lstat(place.beside(name)).catch(() => undefined);
      const is_old = stats?.isFile() === true && this.#now() - stats.mtimeMs > PART_KEPT_MS;
      if (is_old) await unlink(place.beside(name)).catch(() => {});
    }
  }
}

function wantedOf({ size, sha256, mode }: WriteRequest): Wanted {
  if (!Number.isSafeInteger(size) || Number(size) < 0) throw new FileRefused("bad_request", "size must be a number of bytes");
  if (typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) throw new FileRefused("bad_request", "sha256 must be 64 hex digits");
  if (!Number.isInteger(mode)) throw new FileRefused("bad_request", "mode must be a number");
  return { size: Number(size), sha256, mode: Number(mode) & MODE_MASK };
}

/** Returns the name of the partial file. Two writes share it only if they write the same bytes to the same target. */
function partName(place: Place, { sha256 }: Wanted): string {
  return `.rf-${hashOf("sha256", `${path.basename(place.path)}\0${sha256}`).slice(0, 24)}.part`;
}

/**
 * Returns whether the target already has exactly these bytes; if so, sets its mode. Throws FileRefused if a file cannot replace the target.
 */
async function keepWhatIsThere(place: Place, room: FileRoom, { size, sha256, mode }: Wanted): Promise<boolean> {
  const there = await lstat(place.at).catch(() => undefined);
  if (there === undefined) return false;
  requireRegular(there, place);
  await access(place.at, constants.W_OK);
  if (there.size !== size) return false;
  const opened = await openRegular(place, room).catch(() => undefined);
  if (opened === undefined) return false;
  await using file = opened.file;
  const hash = createHash("sha256");
  await hashPart(file, hash, size);
  if (hash.digest("hex") !== sha256) return false;
  // Change the mode of the opened file, since its name may lead to another file by now.
  await file.chmod(mode);
  return true;
}

async function take(port: MessagePort, place: Place, part: string, file: FileHandle, wanted: Wanted): Promise<void> {
  try {
    const stats = await file.stat();
    requireRegular(stats, place);
    const offset = stats.size <= wanted.size ? stats.size : 0;
    if (offset < stats.size) await file.truncate(0);
    await requireSpace(place, wanted.size - offset);
    const hash = createHash("sha256");
    await hashPart(file, hash, offset);
    await answer(port, { type: "ready", path: place.path, offset });
    const bytes = await takeBytes(port, file, hash, offset, wanted.size);
    if (bytes !== wanted.size) throw new FileRefused("bad_request", `${place.path}: received ${bytes} of ${wanted.size} bytes`);
    if (hash.digest("hex") !== wanted.sha256) throw new FileRefused("checksum", `${place.path}: the received data has a wrong checksum`);
    await putInPlace(place, part, file, wanted);
    await answer(port, { type: "done", path: place.path, bytes, moved: bytes - offset, sha256: wanted.sha256 });
  } catch (error) {
    if (error instanceof PortClosed) throw error;
    const refusal = refusalOf(error, place.path);
    // Delete the partial file: resuming it would fail again, and a full disk needs the space.
    if (refusal.code === "checksum" || refusal.code === "disk_full" || refusal.code === "bad_request")
      await unlink(place.beside(part)).catch(() => {});
    throw refusal;
  }
}

async function requireSpace(place: Place, bytes: number): Promise<void> {
  const free = await freeBytes(place.directory);
  if (bytes > free)
    throw new FileRefused("disk_full", `${place.path}: the file needs ${bytes} bytes, but the robot's disk has only ${free} free`);
}

/** Writes received data until the `end` message. Returns the size of the file. */
async function takeBytes(
  port: MessagePort,
  file: FileHandle,
  hash: { update(bytes: Uint8Array): unknown },
  from: number,
  size: number,
): Promise<number> {
  let at = from;
  for (let told = from; ;) {
    if (at - told >= PROGRESS_BYTES) {
      told = at;
      await answer(port, { type: "took", bytes: at });
    }
    const message = await port.read();
    if (message === undefined) throw new PortClosed();
    const { data, control } = readMessage(message);
    if (data === undefined) {
      if (control.type === "end") return at;
      throw new FileRefused("bad_request", "a file is being written: only data or the end of the file may follow");
    }
    if (at + data.length > size) throw new FileRefused("bad_request", "received more bytes than announced");
    hash.update(data);
    for (let written = 0; written < data.length;) {
      const { bytesWritten } = await file.write(data, written, data.length - written, at + written);
      written += bytesWritten;
    }
    at += data.length;
  }
}

/** Flushes the partial file to disk, then renames it to the target. */
async function putInPlace(place: Place, part: string, file: FileHandle, { mode }: Wanted): Promise<void> {
  await file.chmod(mode);
  await file.sync();
  await rename(place.beside(part), place.at).catch(async (error: NodeJS.ErrnoException) => {
    // Ignore the error if another writer of the same bytes has already renamed the shared partial file.
    const there = error.code === "ENOENT" ? await lstat(place.at).catch(() => undefined) : undefined;
    if (there?.ino !== (await file.stat()).ino) throw error;
  });
  const directory = await open(place.beside("."), constants.O_RDONLY | constants.O_DIRECTORY).catch(() => undefined);
  // If the directory cannot be opened or synced, whether the rename survives a power loss depends on the file system.
  await directory?.sync().catch(() => {});
  await directory?.close();
}
