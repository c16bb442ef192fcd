import { lstat, mkdir, mkdtemp, readlink, rm, symlink } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { errorCode } from "./refusal.ts";
import { giveTo, type RunAs } from "./run-as.ts";

export const SOCKET_PORT = 5432;
/** A Unix socket's path, without its closing zero byte, may have 107 bytes on Linux (sockaddr_un). */
const SOCKET_PATH_BYTES_MAX = 107;
const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`;

const fits = (directory: string): boolean => Buffer.byteLength(path.join(directory, SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX;

/**
 * The directory that holds PostgreSQL's socket, made if absent, mode 0700: whoever can enter it is the database's
 * superuser, so nobody else can. The rule: `<directory>.run`; where that makes the socket's path too long it is a link to a
 * private directory below the system's temporary one, which stays the same until the server stops gracefully.
 */
export async function socketDirectoryFor(directory: string, runAs: RunAs): Promise<string> {
  const place = `${directory}.run`;
  if (fits(place)) {
    if (await isPrivate(place, runAs)) return place;
    await rm(place, { recursive: true, force: true });
    await mkdir(place, { mode: 0o700 });
    await giveTo(runAs, place);
    return place;
  }
  const recorded = await readlink(place).catch(() => undefined);
  if (recorded !== undefined && fits(recorded) && (await isPrivate(recorded, runAs))) return recorded;
  const base = fits(path.join(os.tmpdir(), "roamfleet-XXXXXX")) ? os.tmpdir() : "/tmp";
  const made = await mkdtemp(path.join(base, "roamfleet-"));
  await giveTo(runAs, made);
  await rm(place, { recursive: true, force: true });
  await symlink(made, place);
  return made;
}

/** A real directory, ours (or of the account PostgreSQL runs as), closed to everybody else: /tmp is open to all. */
async function isPrivate(directory: string, runAs: RunAs): Promise<boolean> {
  const info = await lstat(directory).catch(() => undefined);
  const owner = runAs.account?.uid ?? process.getuid?.();
  return info !== undefined && info.isDirectory() && info.uid === owner && (info.mode & 0o077) === 0;
}

/** Removes what socketDirectoryFor made, once PostgreSQL has stopped. */
export async function removeSocketDirectory(directory: string): Promise<void> {
  const place = `${directory}.run`;
  const recorded = await readlink(place).catch((error: unknown) => {
    if (errorCode(error) === "EINVAL" || errorCode(error) === "ENOENT") return undefined;
    throw error;
  });
  // Only a name that we can have made: the link might have been changed by hand.
  if (recorded !== undefined && path.basename(recorded).startsWith("roamfleet-")) await rm(recorded, { recursive: true, force: true });
  await rm(place, { recursive: true, force: true });
}

/** Socket and lock file that a killed PostgreSQL leaves: its successor would take their process id for a live one. */
export async function removeStaleSocket(socketDirectory: string): Promise<void> {
  await rm(path.join(socketDirectory, SOCKET_NAME), { force: true });
  await rm(path.join(socketDirectory, `${SOCKET_NAME}.lock`), { force: true });
}
