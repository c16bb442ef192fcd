import fs from "node:fs";
import path from "node:path";
import { becomeUser, findUser, type RunAs, SHELL_OTHERWISE, type User } from "../../runtime/users.ts";

/** Thrown if a shell is refused. The message is for the user. */
export class ShellRefused extends Error {}

interface ShellUserOptions {
  /** Environment of the agent's children; contains the home of a user without a passwd entry. */
  environment?: Readonly<Record<string, string>>;
  /**
   * The agent's state directory, which the user must not be able to enter. If it is set, the user must be neither root nor the agent's own
   * user. Then the user's programs run without supplementary groups and cannot gain privileges.
   */
  kept_from?: string | undefined;
}

/**
 * Returns the user that shells run as: the one in the robot's config file (`named`), or the agent's own user. `environment` contains the
 * home of an agent's user without a passwd entry. Throws ShellRefused if the user does not exist, is root without being named, or does not
 * meet the conditions of `kept_from`. Also throws it if the agent may not switch to the user.
 */
export async function findShellUser(named: string | undefined, { environment = {}, kept_from }: ShellUserOptions = {}): Promise<RunAs> {
  const own = process.getuid?.() ?? 0;
  if (kept_from !== undefined && own !== 0)
    throw new ShellRefused("this robot runs signed releases only, and its agent does not run as root: it cannot act as another user");
  if (named === undefined) {
    if (own === 0)
      throw new ShellRefused("the agent runs as root: set the user of shells in its config file (shell.user), which may be root");
    return { ...((await findUser(String(own))) ?? nameless(own, environment)), become: [] };
  }
  const user = await findUser(named);
  if (user === undefined) throw new ShellRefused(`there is no user ${named} on the robot`);
  if (kept_from !== undefined) requireKept(kept_from, user, own);
  if (user.uid === own) return { ...user, become: [] };
  if (own !== 0) throw new ShellRefused(`the agent does not run as root, so it cannot open a shell as ${named}`);
  // Drop supplementary groups, one of which may give access to a container engine. Disable setuid programs such as sudo, which could give
  // root.
  const rights = kept_from !== undefined ? ["--clear-groups", "--no-new-privs"] : ["--init-groups"];
  const become = becomeUser(user, rights);
  if (become === undefined) throw new ShellRefused(`setpriv is not installed, so no shell can be opened as ${named}`);
  return { ...user, become };
}

/** Throws ShellRefused if the user is root, is the agent's own user, or may enter the directory. */
function requireKept(directory: string, { name, uid, gid }: User, own: number): void {
  const refuse = (why: string): never => {
    throw new ShellRefused(`this robot runs signed releases only: ${why}`);
  };
  if (uid === 0 || uid === own) refuse(`shell.user must be neither root nor the agent's own user, and ${name} is`);
  const { mode, ...owner } = fs.statSync(directory);
  const rights = owner.uid === uid ? mode >> 6 : owner.gid === gid ? mode >> 3 : mode;
  if ((rights & 0o7) !== 0) refuse(`${name} may enter ${directory}: chmod it to 0700, or name another shell.user`);
}

/** Returns the data of a uid without a passwd entry. The agent may run as such a user in a container. */
function nameless(uid: number, { HOME }: Readonly<Record<string, string>>): User {
  const home = HOME !== undefined && path.isAbsolute(HOME) ? HOME : "/";
  return { name: String(uid), uid, gid: process.getgid?.() ?? uid, home, shell: SHELL_OTHERWISE };
}
