import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, readdir, readlink, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { FileRefused } from "./refused.ts";

/** From linux/fcntl.h: a handle of a directory that needs no right to read it. */
const O_PATH = 0o10000000;
const PATH_BYTES_MAX = 4096;

/** Where files may be, and for whom. */
export interface FileRoom {
  /** Absolute; files are below these and nowhere else. */
  directories: readonly string[];
  /** Where relative paths begin. */
  home: string;
  /** A directory that is served to nobody, by whatever name it is reached: the agent's own state. */
  closed: string;
}

/** A directory that is held open, and a name in it: what the path meant when it was checked, it means until `close`. */
export interface Place {
  /** Absolute, without symbolic links. */
  path: string;
  /** The same through the open directory. */
  at: string;
  /** Another name in the same directory. */
  beside(name: string): string;
  /** Of the directory itself. */
  directory: string;
  close(): Promise<void>;
}

/** Reads the path that somebody wrote. Throws FileRefused for what is none. */
export function absolutePath(written: unknown, { home }: FileRoom): string {
  if (typeof written !== "string" || written === "") throw new FileRefused("bad_request", "a path is needed");
  if (written.includes("\0")) throw new FileRefused("bad_request", "a path has no zero byte");
  if (Buffer.byteLength(written) > PATH_BYTES_MAX) throw new FileRefused("bad_request", "the path is too long");
  if (written === "~") return home;
  return path.resolve(home, written.startsWith("~/") ? `./${written.slice(2)}` : written);
}

/** A file or directory that is there; symbolic links are followed. */
export async function findPlace(written: unknown, room: FileRoom): Promise<Place> {
  const wanted = absolutePath(written, room);
  try {
    return await hold(await realpath(wanted), room);
  } catch (error) {
    // What is outside is nobody's business, nor whether it is there.
    if (!(error instanceof FileRefused) && !(await isInRoom(wanted, room))) throw forbidden(wanted, room);
    throw error;
  }
}

/** Where something is to be written: what is there (symbolic links are followed), or nothing yet in a directory that is. */
export async function findTarget(written: unknown, room: FileRoom): Promise<Place> {
  const wanted = absolutePath(written, room);
  try {
    return await hold(await realpath(wanted), room);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  if (!(await isInRoom(wanted, room))) throw forbidden(wanted, room);
  const directory = await realpath(path.dirname(wanted));
  const target = path.join(directory, path.basename(wanted));
  const there = await lstat(target).catch(() => undefined);
  if (there?.isSymbolicLink() === true) throw new FileRefused("forbidden", `${wanted}: this is a symbolic link to nothing`);
  return hold(target, room);
}

async function hold(real: string, room: FileRoom): Promise<Place> {
  // The root has no name in any directory.
  const name = path.basename(real) || ".";
  const directory = await open(path.dirname(real), O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    // What was opened, not what was asked for: somebody may have moved a directory meanwhile.
    const held = await pathOf(directory);
    const place = path.join(held, name);
    if (!(await isInRoom(place, room))) throw forbidden(place, room);
    await requireOpen(directory, name, room);
    const beside = (other: string): string => `/proc/self/fd/${directory.fd}/${other}`;
    return { path: place, at: beside(name), beside, directory: held, close: () => directory.close() };
  } catch (error) {
    await directory.close();
    throw error;
  }
}

function forbidden(place: string, { directories }: FileRoom): FileRefused {
  const allowed = directories.length === 0 ? "nowhere" : `below ${directories.join(", ")} only`;
  return new FileRefused("forbidden", `${place}: the robot's configuration allows files ${allowed}`);
}

/** What a directory is, whatever its name: a bind mount gives it a second one. */
const identityOf = ({ dev, ino }: Stats): string => `${dev}:${ino}`;

/** The closed directory and those in it; none that this process cannot see, as it can then reach nothing in them. */
async function closedDirectories({ closed }: FileRoom): Promise<Set<string>> {
  const names = await readdir(closed).catch(() => []);
  const found = await Promise.all([".", ...names].map((name) => stat(path.join(closed, name)).catch(() => undefined)));
  return new Set(found.filter((one) => one?.isDirectory() === true).map((one) => identityOf(one as Stats)));
}

/** Throws FileRefused when the name in this directory is the closed directory, or is in it. */
async function requireOpen(directory: FileHandle, name: string, room: FileRoom): Promise<void> {
  const closed = await closedDirectories(room);
  const refuse = (): never => {
    throw new FileRefused("forbidden", `${room.closed}: the agent does not serve its own state directory`);
  };
  let at = `/proc/self/fd/${directory.fd}`;
  const named = await stat(`${at}/${name}`).catch(() => undefined);
  if (named !== undefined && closed.has(identityOf(named))) refuse();
  for (let below = ""; ; at = `${at}/..`) {
    const here = identityOf(await stat(`${at}/.`));
    if (closed.has(here)) refuse();
    if (here === below) return;
    below = here;
  }
}

/** Throws FileRefused when one of the file's names may lie in the closed directory: a second name of a file that the agent's user owns. */
async function requireOneName(stats: Stats, place: Place, { closed }: FileRoom): Promise<void> {
  if (stats.nlink === 1) return;
  const own = await stat(closed).catch(() => undefined);
  if (own === undefined || own.dev !== stats.dev || own.uid !== stats.uid) return;
  throw new FileRefused("forbidden", `${place.path}: this file has another name too, which may be in the agent's state directory`);
}

async function pathOf(handle: FileHandle): Promise<string> {
  return readlink(`/proc/self/fd/${handle.fd}`);
}

async function isInRoom(place: string, { directories }: FileRoom): Promise<boolean> {
  for (const directory of directories) {
    const real = await realpath(directory).catch(() => directory);
    if (real === "/" || place === real || place.startsWith(`${real}/`)) return true;
  }
  return false;
}

/** Opens a regular file and nothing else, without following a link that was put there meanwhile. */
export async function openRegular(place: Place, room: FileRoom): Promise<{ file: FileHandle; stats: Stats }> {
  requireRegular(await lstat(place.at), place);
  const file = await open(place.at, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stats = await file.stat();
    requireRegular(stats, place);
    await requireOneName(stats, place, room);
    return { file, stats };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Throws FileRefused for directories, devices and whatever else holds no bytes of its own. */
export function requireRegular(stats: Stats, place: Pick<Place, "path">): void {
  if (stats.isDirectory()) throw new FileRefused("not_a_file", `${place.path}: this is a directory`);
  if (!stats.isFile()) throw new FileRefused("not_a_file", `${place.path}: this is no regular file`);
}
