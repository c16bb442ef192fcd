import { isUtf8 } from "node:buffer";
import type { Stats } from "node:fs";
import { lstat, mkdir, readdir } from "node:fs/promises";
import { controlMessage, type FileAnswer, type FileEntry, type FileKind } from "@roamfleet/protocol/link";
import { type MessagePort, PortClosed } from "./message-port.ts";
import { type FileRoom, findPlace, findTarget, type Place } from "./place.ts";
import { FileRefused } from "./refused.ts";

/** Entries of one message. */
const ENTRIES_MAX = 100;
/** Of a directory; a larger one is refused. */
const NAMES_MAX = 100_000;
const MODE_MASK = 0o777;

/** Tells the other end. Throws PortClosed when nobody listens. */
export async function answer(port: MessagePort, message: FileAnswer): Promise<void> {
  if (!(await port.write(controlMessage(message)))) throw new PortClosed();
}

/** Two files with the same version have, for all that can be seen from outside, the same bytes. */
export const versionOf = ({ ino, size, mtimeMs }: Stats): string => `${ino}-${size}-${mtimeMs}`;

export const modeOf = ({ mode }: Stats): number => mode & MODE_MASK;

const kindOf = (stats: Stats): FileKind => (stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "other");

const seen = (stats: Stats): Omit<FileEntry, "name" | "kind"> => ({ size: stats.size, mode: modeOf(stats), version: versionOf(stats) });

/** Answers what a path is; symbolic links are followed. */
export async function answerStat(port: MessagePort, room: FileRoom, path: unknown): Promise<void> {
  const place = await findPlace(path, room);
  try {
    const stats = await lstat(place.at);
    await answer(port, { type: "stat", path: place.path, kind: kindOf(stats), ...seen(stats) });
  } finally {
    await place.close();
  }
}

/** Answers what is in a directory, many entries at a time. */
export async function answerList(port: MessagePort, room: FileRoom, path: unknown): Promise<void> {
  const place = await findPlace(path, room);
  try {
    if (!(await lstat(place.at)).isDirectory()) throw new FileRefused("not_a_directory", `${place.path}: this is no directory`);
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

/** Undefined: it went away meanwhile. A link to a file counts as the file, unless that is where nobody may look. */
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

/** Makes one directory, or finds it there. */
export async function answerMkdir(port: MessagePort, room: FileRoom, path: unknown, mode: unknown): Promise<void> {
  const place = await findTarget(path, room);
  try {
    try {
      await mkdir(place.at, { mode: Number(mode) & MODE_MASK });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (!(await lstat(place.at)).isDirectory()) throw new FileRefused("not_a_directory", `${place.path}: this is no directory`);
    }
    await answer(port, { type: "made", path: place.path });
  } finally {
    await place.close();
  }
}
