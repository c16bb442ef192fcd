import { lstat, mkdir, mkdtemp, readlink, rm, symlink } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { errorCode } from "./refusal.ts";
import { giveTo, type RunAs } from "./run-as.ts";

export const SOCKET_PORT = 5432;
/** Maximum length of a Unix socket's path on Linux, without the final zero byte (sockaddr_un). */
const SOCKET_PATH_BYTES_MAX = 107;
const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`;

const fits = (directory: string): boolean => Buffer.byteLength(path.join(directory, SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX;

/**
 * Returns the directory of PostgreSQL's socket, created with mode 0700 if absent. Every user that can enter it is the database's superuser.
 * It is `<directory>.run`. If the socket's path would be too long, that is a link to a private directory below the system's temporary one,
 * which stays the same until a graceful stop.
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

/** Returns whether it is a real directory, owned by us or PostgreSQL's account, and closed to other users: any user can write to /tmp. */
async function isPrivate(directory: string, runAs: RunAs): Promise<boolean> {
  const info = await lstat(directory).catch(() => undefined);
  const owner = runAs.account?.uid ?? process.getuid?.();
  return info !== undefined && info.isDirectory() && info.uid === owner && (info.mode & 0o077) === 0;
}

/** Removes the directory of socketDirectoryFor after PostgreSQL has stopped. */
export async function removeSocketDirectory(directory: string): Promise<void> {
  const place = `${directory}.run`;
  const recorded = await readlink(place).catch((error: unknown) => {
    if (errorCode(error) === "EINVAL" || errorCode(error) === "ENOENT") return undefined;
    throw error;
  });
  // Checks the name before removal, because the link may have been changed by hand.
  if (recorded !== undefined && path.basename(recorded).startsWith("roamfleet-")) await rm(recorded, { recursive: true, force: true });
  await rm(place, { recursive: true, force: true });
}

/** Removes socket and lock file of a killed PostgreSQL. A new one would consider the process id in them as running. */
export async function removeStaleSocket(socketDirectory: string): Promise<void> {
  await rm(path.join(socketDirectory, SOCKET_NAME), { force: true });
  await rm(path.join(socketDirectory, `${SOCKET_NAME}.lock`), { force: true });
}
