import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, readdir, readlink, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { type FileFailure, controlMessage, type FileAnswer } from "@roamfleet/protocol/link";

/** Flag of `open` from linux/fcntl.h. It opens a directory even without the permission to read it. */
const O_PATH = 0o10000000;
const PATH_BYTES_MAX = 4096;

/** Which files may be read and written. */
export interface FileRoom {
  /** Absolute directories. Only files below them are allowed. */
  directories: readonly string[];
  /** Directory that relative paths start from. */
  home: string;
  /** The agent's state directory. It is never served, whatever path leads to it. */
  closed: string;
}

/**
 * An open directory and the name of a file in it. While the place is open, changes of directories or links on its path cannot redirect
 * access to another file.
 */
export interface Place extends AsyncDisposable {
  /** Absolute path of the file, without symbolic links. */
  path: string;
  /** Path of the same file through the open directory (/proc/self/fd). */
  at: string;
  /** Returns the path of another name in the same directory, also through the open directory. */
  beside(name: string): string;
  directory: string;
}

/** Returns the absolute path for the path in a request. Throws FileRefused if it is invalid. */
function absolutePath(written: unknown, { home }: FileRoom): string {
  if (typeof written !== "string" || written === "") throw new FileRefused("bad_request", "a path is required");
  if (written.includes("\0")) throw new FileRefused("bad_request", "a path must not contain a NUL character");
  if (Buffer.byteLength(written) > PATH_BYTES_MAX) throw new FileRefused("bad_request", "the path is too long");
  if (written === "~") return home;
  return path.resolve(home, written.startsWith("~/") ? `./${written.slice(2)}` : written);
}

/** Opens the place of an existing file or directory, following symbolic links. */
export async function findPlace(written: unknown, room: FileRoom): Promise<Place> {
  const wanted = absolutePath(written, room);
  try {
    return await hold(await realpath(wanted), room);
  } catch (error) {
    // Throw the same error whether or not the path exists, so that the existence of files outside the allowed directories is not
    // revealed.
    if (!(error instanceof FileRefused) && !(await isInRoom(wanted, room))) throw forbidden(wanted, room);
    throw error;
  }
}

/**
 * Opens the place that a file is to be written to. That is an existing file, following symbolic links, or a new name in an existing
 * directory.
 */
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
  if (there?.isSymbolicLink() === true) throw new FileRefused("forbidden", `${wanted}: broken symbolic link`);
  return hold(target, room);
}

async function hold(real: string, room: FileRoom): Promise<Place> {
  // The root directory has no name in a parent directory, so use the name `.` for it.
  const name = path.basename(real) || ".";
  const directory = await open(path.dirname(real), O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    // Check the path of the directory that is now open, since it may have been moved after its path was resolved.
    const held = await readlink(`/proc/self/fd/${directory.fd}`);
    const place = path.join(held, name);
    if (!(await isInRoom(place, room))) throw forbidden(place, room);
    await requireOpen(directory, name, room);
    const beside = (other: string): string => `/proc/self/fd/${directory.fd}/${other}`;
    return { path: place, at: beside(name), beside, directory: held, [Symbol.asyncDispose]: () => directory.close() };
  } catch (error) {
    await directory.close();
    throw error;
  }
}

function forbidden(place: string, { directories }: FileRoom): FileRefused {
  const allowed = directories.length === 0 ? "nowhere" : `only below ${directories.join(", ")}`;
  return new FileRefused("forbidden", `${place}: the robot's configuration allows files ${allowed}`);
}

/** Returns the device and inode of a directory. They identify it even if a bind mount gives it a second path. */
const identityOf = ({ dev, ino }: Stats): string => `${dev}:${ino}`;

/**
 * Returns the identities of the agent's state directory and of its direct subdirectories. Leaves out subdirectories that this process
 * cannot see, since it cannot reach the files in them either.
 */
async function closedDirectories({ closed }: FileRoom): Promise<Set<string>> {
  const names = await readdir(closed).catch(() => []);
  const found = await Promise.all([".", ...names].map((name) => stat(path.join(closed, name)).catch(() => undefined)));
  return new Set(found.filter((one) => one?.isDirectory() === true).map((one) => identityOf(one as Stats)));
}

/** Throws FileRefused if a file is the agent's state directory or is inside it. */
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

/**
 * Throws FileRefused if another hard link of the file may be in the agent's state directory. That is assumed if the file has several
 * links, and the same owner and file system as that directory.
 */
async function requireOneName(stats: Stats, place: Place, { closed }: FileRoom): Promise<void> {
  if (stats.nlink === 1) return;
  const own = await stat(closed).catch(() => undefined);
  if (own === undefined || own.dev !== stats.dev || own.uid !== stats.uid) return;
  throw new FileRefused("forbidden", `${place.path}: this file has another hard link, which may be in the agent's state directory`);
}

async function isInRoom(place: string, { directories }: FileRoom): Promise<boolean> {
  for (const directory of directories) {
    const real = await realpath(directory).catch(() => directory);
    if (real === "/" || place === real || place.startsWith(`${real}/`)) return true;
  }
  return false;
}

/** Opens a file if it is regular. If a symbolic link has replaced the file meanwhile, does not follow it. */
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

/** Throws FileRefused for a directory, a device, or any other file that is not regular. */
export function requireRegular(stats: Stats, place: Pick<Place, "path">): void {
  if (stats.isDirectory()) throw new FileRefused("not_a_file", `${place.path}: this is a directory`);
  if (!stats.isFile()) throw new FileRefused("not_a_file", `${place.path}: this is not a regular file`);
}

/** Thrown if a file operation is refused. The message states the reason for the user. */
export class FileRefused extends Error {
  readonly code: FileFailure;

  constructor(code: FileFailure, message: string) {
    super(message);
    this.code = code;
  }
}

const WORDS = new Map<string, [FileFailure, string]>([
  ["ENOENT", ["not_found", "there is no such file or directory"]],
  ["EACCES", ["forbidden", "permission denied"]],
  ["EPERM", ["forbidden", "permission denied"]],
  ["EROFS", ["forbidden", "the file system is read-only"]],
  ["ENOTDIR", ["not_a_directory", "a part of the path is not a directory"]],
  ["EISDIR", ["not_a_file", "this is a directory"]],
  ["ELOOP", ["forbidden", "too many symbolic links, or one where none is allowed"]],
  ["ENAMETOOLONG", ["bad_request", "the name is too long"]],
  ["ENOSPC", ["disk_full", "the robot's disk is full"]],
  ["EDQUOT", ["disk_full", "the disk quota on the robot is used up"]],
  ["EFBIG", ["disk_full", "the robot's file system does not support files of this size"]],
]);

/** Converts an error of the file system to a FileRefused that names the path. Throws any other error again. */
export function refusalOf(error: unknown, path: string): FileRefused {
  if (error instanceof FileRefused) return error;
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  const [failure, words] = WORDS.get(code) ?? ["failed", `the operation failed on the robot (${code})`];
  return new FileRefused(failure, `${path}: ${words}`);
}

/**
 * The connection of a file session: a channel, or the pipes to a separate process. Each message has a tag, which distinguishes data from
 * control messages.
 */
export interface MessagePort {
  /** Returns the next message, or undefined at the end. */
  read(): Promise<Uint8Array | undefined>;
  /**
   * Sends a message, and waits while there is no room. Resolves with true, or with false if the other end is gone. Wait for one call
   * before making the next.
   */
  write(message: Uint8Array): Promise<boolean>;
}

/** Thrown if no response can be sent because the other end is gone. */
export class PortClosed extends Error {}

/** Sends a response. Throws PortClosed if the other end is gone. */
export async function answer(port: MessagePort, message: FileAnswer): Promise<void> {
  if (!(await port.write(controlMessage(message)))) throw new PortClosed();
}
