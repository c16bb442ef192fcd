import fs from "node:fs";
import path from "node:path";
import { grant } from "../disk/grant.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { StepFailure } from "./failure.ts";
import type { StatePaths } from "./paths.ts";
import { becomeUser, findUser, type RunAs, type User } from "./users.ts";

/** Permission of a directory's group, or of others, to pass through it without listing it. */
const GROUP_PASSES = 0o010;
const OTHERS_PASS = 0o001;
const ROOT_GROUP = 0;

/**
 * Returns the user that programs of bundles run as. Throws StepFailure if this robot has no such user, or if the agent cannot start programs as
 * another user because it does not run as root or setpriv is not installed.
 */
export async function findWorkloadUser(name: string): Promise<RunAs> {
  const refuse = (why: string): never => {
    throw new StepFailure("rejected_by_robot", why);
  };
  const user = (await findUser(name)) ?? refuse(`this robot has no user ${name}: create it, or set another --workload-user`);
  const own = process.getuid?.();
  if (user.uid === own) return { ...user, become: [] };
  if (own !== 0) refuse(`programs cannot run as the user ${name}: the agent does not run as root`);
  return { ...user, become: becomeUser(user) ?? refuse(`programs cannot run as the user ${name}: setpriv is not installed`) };
}

/**
 * Lets a user pass through the state directory to the app's versions, and read the config files. The directories and files get the user's
 * group, so that other users cannot even enter the state directory. If a directory already has another group, that of the agent's socket,
 * all users may pass through it.
 */
export function openStateTo({ gid }: User, paths: StatePaths, app: string): void {
  for (const directory of [paths.root, paths.apps, paths.app(app), paths.versions(app)]) {
    const group = fs.statSync(directory).gid;
    if (group === gid || group === ROOT_GROUP) grant(directory, GROUP_PASSES, gid);
    else grant(directory, OTHERS_PASS);
  }
  makeDirectory(paths.configs);
  // New files in a directory with the setgid bit get the group of the directory.
  grant(paths.configs, 0o2050, gid);
  for (const name of fs.readdirSync(paths.configs)) grant(path.join(paths.configs, name), 0o040, gid);
}
