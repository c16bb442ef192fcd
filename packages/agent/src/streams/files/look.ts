import { isUtf8 } from "node:buffer";
import type { Stats } from "node:fs";
import { lstat, mkdir, readdir } from "node:fs/promises";
import { controlMessage, type FileAnswer, type FileEntry, type FileKind } from "@roamfleet/protocol/link";
import { type MessagePort, PortClosed } from "./message-port.ts";
import { type FileRoom, findPlace, findTarget, type Place } from "./place.ts";
import { FileRefused } from "./refused.ts";

/** Maximum entries per message. */
const ENTRIES_MAX = 100;
/** Maximum names in a directory; a larger one is refused. */
const NAMES_MAX = 100_000;
const MODE_MASK = 0o777;

/** Sends a response. Throws PortClosed if the other end is gone. */
export async function answer(port: MessagePort, message: FileAnswer): Promise<void> {
  if (!(await port.write(controlMessage(message)))) throw new PortClosed();
}

/** Two files with the same version have the same bytes, as far as their metadata show. */
export const versionOf = ({ ino, size, mtimeMs }: Stats): string => `${ino}-${size}-${mtimeMs}`;

export const modeOf = ({ mode }: Stats): number => mode & MODE_MASK;

const kindOf = (stats: Stats): FileKind => (stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "other");

const seen = (stats: Stats): Omit<FileEntry, "name" | "kind"> => ({ size: stats.size, mode: modeOf(stats), version: versionOf(stats) });

/** Sends the metadata of a path; symbolic links are followed. */
export async function answerStat(port: MessagePort, room: FileRoom, path: unknown): Promise<void> {
  const place = await findPlace(path, room);
  try {
    const stats = await lstat(place.at);
    await answer(port, { type: "stat", path: place.path, kind: kindOf(stats), ...seen(stats) });
  } finally {
    await place.close();
  }
}

/** Sends the entries of a directory, many per message. */
export async function answerList(port: MessagePort, room: FileRoom, path: unknown): Promise<void> {
  const place = await findPlace(path, room);
  try {
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
  } finally {
    await place.close();
  }
}

/** Returns undefined if the entry has disappeared. A link to a file counts as the file, unless its target is not allowed. */
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
  const target = await findPlace(path, room).catch(() => undefined);
  if (target === undefined) return undefined;
  try {
    return await lstat(target.at).catch(() => undefined);
  } finally {
    await target.close();
  }
}

/** Creates one directory, or accepts an existing one. */
export async function answerMkdir(port: MessagePort, room: FileRoom, path: unknown, mode: unknown): Promise<void> {
  const place = await findTarget(path, room);
  try {
    try {
      await mkdir(place.at, { mode: Number(mode) & MODE_MASK });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (!(await lstat(place.at)).isDirectory()) throw new FileRefused("not_a_directory", `${place.path}: this is not a directory`);
    }
    await answer(port, { type: "made", path: place.path });
  } finally {
    await place.close();
  }
}
