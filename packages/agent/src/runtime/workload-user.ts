import fs from "node:fs";
import path from "node:path";
import { makeDirectory } from "../disk/write-atomically.ts";
import { StepFailure } from "./failure.ts";
import type { StatePaths } from "./paths.ts";
import { findProgram } from "./spawn-child.ts";

const SYSTEM_PATH = "/usr/bin:/bin";
/** Permissions to pass through a directory, for users other than its owner. */
const PASSABLE = 0o011;

/** The user that programs of bundles run as. */
export interface WorkloadUser {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

/**
 * Returns a user of this robot. Throws StepFailure if there is no such user, or if the agent cannot start programs as another user because it
 * does not run as root.
 */
export function findWorkloadUser(name: string): WorkloadUser {
  const user = readUser(name);
  if (user === undefined)
    throw new StepFailure("rejected_by_robot", `this robot has no user ${name}: create it, or set another --workload-user`);
  const own = process.getuid?.();
  if (own !== 0 && own !== user.uid)
    throw new StepFailure("rejected_by_robot", `programs cannot run as the user ${name}: the agent does not run as root`);
  return user;
}

/** Returns the variables that a login of the user sets; none if this robot has no such user. */
export function homeOf(name: string): Record<string, string> {
  const user = readUser(name);
  return user === undefined ? {} : { HOME: user.home, USER: name, LOGNAME: name };
}

function readUser(name: string): WorkloadUser | undefined {
  const lines = fs.readFileSync("/etc/passwd", "utf8").split("\n");
  const fields = lines.map((line) => line.split(":")).find(([known]) => known === name);
  const [uid, gid, home] = [Number(fields?.[2]), Number(fields?.[3]), fields?.[5]];
  return home !== undefined && Number.isSafeInteger(uid) && Number.isSafeInteger(gid) ? { name, uid, gid, home } : undefined;
}

/** Returns the command that runs `argv` as the user, with the user's groups. */
export function commandAs(user: WorkloadUser | undefined, argv: readonly string[]): string[] {
  if (user === undefined || user.uid === process.getuid?.()) return [...argv];
  const setpriv = findProgram("setpriv", SYSTEM_PATH) ?? "setpriv";
  return [setpriv, `--reuid=${user.name}`, `--regid=${user.gid}`, "--init-groups", "--", ...argv];
}

/**
 * Gives a user access to what programs need in the state directory: the way to the app's versions, and the config files through the user's
 * group. Everything else there remains readable by the agent only.
 */
export function openStateTo({ gid }: WorkloadUser, paths: StatePaths, app: string): void {
  for (const directory of [paths.root, paths.apps, paths.app(app), paths.versions(app)]) allow(directory, PASSABLE);
  makeDirectory(paths.configs);
  // New files in a directory with the setgid bit get the group of the directory.
  allow(paths.configs, 0o2050, gid);
  for (const name of fs.readdirSync(paths.configs)) allow(path.join(paths.configs, name), 0o040, gid);
}

/** Adds permissions to a file or directory and sets its group. Writes nothing if it has both, to spare the flash. */
function allow(place: string, permissions: number, group?: number): void {
  const { uid, gid, mode } = fs.statSync(place);
  // chown clears the setgid bit of files, so the mode is set afterwards.
  if (group !== undefined && gid !== group) fs.chownSync(place, uid, group);
  if ((mode & permissions) !== permissions) fs.chmodSync(place, (mode & 0o7777) | permissions);
}
