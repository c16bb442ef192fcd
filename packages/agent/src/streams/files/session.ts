import { isUtf8 } from "node:buffer";
import type { Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, readdir } from "node:fs/promises";
import { createHash } from "node:crypto";
import { type FileEntry, type FileKind, FRAME_PAYLOAD_BYTES_MAX, FrameError, readMessage } from "@roamfleet/protocol/link";
import {
  FileRefused,
  type FileRoom,
  findPlace,
  findTarget,
  type MessagePort,
  openRegular,
  type Place,
  PortClosed,
  refusalOf,
  answer,
} from "./place.ts";
import { hashPart } from "../../runtime/byte-reader.ts";
import { FileWriter } from "./write-file.ts";

/** The fields of a FileRequest that has not been validated yet. */
type Asked = Readonly<Record<string, unknown>>;

/** Handles requests one after the other until the other end closes. Throws FrameError for an invalid message. */
export async function serveFiles(port: MessagePort, room: FileRoom, now: () => number): Promise<void> {
  const writer = new FileWriter(room, now);
  for (let message = await port.read(); message !== undefined; message = await port.read()) {
    const { control } = readMessage(message);
    // Skip the remaining messages of a write that has already failed: its data and its `end`.
    if (control === undefined || control["type"] === "end") continue;
    try {
      await serveRequest(port, room, writer, control);
    } catch (error) {
      if (error instanceof PortClosed) return;
      if (error instanceof FrameError) throw error;
      const { code, message: words } = refusalOf(error, String(control["path"]));
      await answer(port, { type: "failed", code, message: words }).catch(() => {});
    }
  }
}

function serveRequest(port: MessagePort, room: FileRoom, writer: FileWriter, asked: Asked): Promise<void> {
  const { path, offset, version, size, sha256, mode } = asked;
  switch (asked["type"]) {
    case "stat":
      return answerStat(port, room, path);
    case "list":
      return answerList(port, room, path);
    case "read":
      return answerRead(port, room, { path, offset, version });
    case "write":
      return writer.answerWrite(port, { path, size, sha256, mode });
    case "mkdir":
      return answerMkdir(port, room, path, mode);
    default:
      return Promise.reject(new FileRefused("bad_request", "the robot does not support this request"));
  }
}

/** Maximum number of directory entries in one message. */
const ENTRIES_MAX = 100;
/** Maximum number of names in a directory. A directory with more is refused. */
const NAMES_MAX = 100_000;
const MODE_MASK = 0o777;

/** Returns the version of a file. Two files with the same version have the same bytes, as far as their metadata show. */
const versionOf = ({ ino, size, mtimeMs }: Stats): string => `${ino}-${size}-${mtimeMs}`;

const modeOf = ({ mode }: Stats): number => mode & MODE_MASK;

const kindOf = (stats: Stats): FileKind => (stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "other");

const seen = (stats: Stats): Omit<FileEntry, "name" | "kind"> => ({ size: stats.size, mode: modeOf(stats), version: versionOf(stats) });

/** Sends the metadata of a path, following symbolic links. */
async function answerStat(port: MessagePort, room: FileRoom, path: unknown): Promise<void> {
  await using place = await findPlace(path, room);
  const stats = await lstat(place.at);
  await answer(port, { type: "stat", path: place.path, kind: kindOf(stats), ...seen(stats) });
}

/** Sends the entries of a directory in batches. */
async function answerList(port: MessagePort, room: FileRoom, path: unknown): Promise<void> {
  await using place = await findPlace(path, room);
  if (!(await lstat(place.at)).isDirectory()) throw new FileRefused("not_a_directory", `${place.path}: this is not a directory`);
  const names = await readdir(place.at, { encoding: "buffer" });
  if (names.length > NAMES_MAX)
    throw new FileRefused("failed", `${place.path}: a directory with more than ${NAMES_MAX} names is not copied`);
  const named = names.filter((name) => isUtf8(name)).map((name) => name.toString("utf8"));
  for (let from = 0; from < named.length; from += ENTRIES_MAX) {
    const entries = await Promise.all(named.slice(from, from + ENTRIES_MAX).map((name) => entryOf(place, name, room)));
    await answer(port, { type: "entries", entries: entries.filter((entry) => entry !== undefined) });
  }
  await answer(port, { type: "listed", unnamed: names.length - named.length });
}

/**
 * Returns the directory entry for a name; undefined if the file no longer exists. A symbolic link to an allowed file is
 * returned as that file.
 */
async function entryOf(place: Place, name: string, room: FileRoom): Promise<FileEntry | undefined> {
  const at = `${place.at}/${name}`;
  try {
    const stats = await lstat(at);
    if (!stats.isSymbolicLink()) return { name, kind: kindOf(stats), ...seen(stats) };
    const target = await statsOfTarget(`${place.path}/${name}`, room);
    return target?.isFile() === true ? { name, kind: "file", ...seen(target) } : { name, kind: "link", ...seen(stats) };
  } catch {
    return undefined;
  }
}

async function statsOfTarget(path: string, room: FileRoom): Promise<Stats | undefined> {
  await using target = await findPlace(path, room).catch(() => undefined);
  return target && (await lstat(target.at).catch(() => undefined));
}

/** Creates a directory. Succeeds if the directory already exists. */
async function answerMkdir(port: MessagePort, room: FileRoom, path: unknown, mode: unknown): Promise<void> {
  await using place = await findTarget(path, room);
  try {
    await mkdir(place.at, { mode: Number(mode) & MODE_MASK });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    if (!(await lstat(place.at)).isDirectory()) throw new FileRefused("not_a_directory", `${place.path}: this is not a directory`);
  }
  await answer(port, { type: "made", path: place.path });
}

/** Tag of messages that contain data. */
const DATA = 0;

interface ReadRequest {
  path: unknown;
  /** Number of bytes of the file that the client already has. */
  offset: unknown;
  /** Version of the file when the client read those bytes. */
  version: unknown;
}

/** Sends a file from an offset on, and finally the hash of the whole file, including the bytes before the offset. */
async function answerRead(port: MessagePort, room: FileRoom, request: ReadRequest): Promise<void> {
  await using place = await findPlace(request.path, room);
  const { file, stats } = await openRegular(place, room);
  await using opened = file;
  const version = versionOf(stats);
  const { size } = stats;
  const offset = Number(request.offset ?? 0);
  if (!Number.isSafeInteger(offset) || offset < 0) throw new FileRefused("bad_request", "offset must be a number of bytes");
  if (offset > size || (request.version !== undefined && request.version !== version)) throw changed(place);
  await answer(port, { type: "reading", path: place.path, size, mode: modeOf(stats), version, offset });
  const hash = createHash("sha256");
  await hashPart(opened, hash, offset);
  await sendFrom(opened, port, hash, offset, size, place);
  // If the file was changed during the read, the client has a mix of two versions.
  if (versionOf(await opened.stat()) !== version) throw changed(place);
  await answer(port, { type: "done", path: place.path, bytes: size, moved: size - offset, sha256: hash.digest("hex") });
}

const changed = ({ path }: Place): FileRefused => new FileRefused("changed", `${path}: the file was changed during the transfer`);

/** Sends a file from an offset on, one frame at a time and no faster than the other end reads. */
async function sendFrom(
  file: FileHandle,
  port: MessagePort,
  hash: { update(bytes: Uint8Array): unknown },
  from: number,
  size: number,
  place: Place,
): Promise<void> {
  for (let at = from; at < size;) {
    const message = Buffer.allocUnsafe(Math.min(FRAME_PAYLOAD_BYTES_MAX, size - at + 1));
    message[0] = DATA;
    const { bytesRead } = await file.read(message, 1, message.length - 1, at);
    if (bytesRead === 0) throw changed(place);
    hash.update(message.subarray(1, 1 + bytesRead));
    if (!(await port.write(message.subarray(0, 1 + bytesRead)))) throw new PortClosed();
    at += bytesRead;
  }
}
