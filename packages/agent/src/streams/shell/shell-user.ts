import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

/** Thrown if a shell is refused. The message is for the user. */
export class ShellRefused extends Error {}

export interface ShellUser {
  name: string;
  uid: number;
  gid: number;
  home: string;
  shell: string;
  /** Command prefix that runs a program as this user; empty for the agent's own user. */
  become: readonly string[];
}

const LOOKUP_MS = 5_000;
const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv", "/usr/sbin/setpriv", "/sbin/setpriv"];
const SHELL_OTHERWISE = "/bin/sh";

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
 * home of the agent's user if it has no passwd entry. Throws ShellRefused if the user does not exist, is root without being named, or does
 * not meet the conditions of `kept_from`. Also throws it if the agent may not switch to the user.
 */
export async function findShellUser(named: string | undefined, { environment = {}, kept_from }: ShellUserOptions = {}): Promise<ShellUser> {
  const own = process.getuid?.() ?? 0;
  if (kept_from !== undefined && own !== 0)
    throw new ShellRefused("this robot runs signed releases only, and its agent does not run as root: it cannot act as another user");
  if (named === undefined) {
    if (own === 0)
      throw new ShellRefused("the agent runs as root: set the user of shells in its config file (shell.user), which may be root");
    return { ...((await lookUp(String(own))) ?? nameless(own, environment)), become: [] };
  }
  const user = await lookUp(named);
  if (user === undefined) throw new ShellRefused(`there is no user ${named} on the robot`);
  if (kept_from !== undefined) requireKept(kept_from, user, own);
  if (user.uid === own) return { ...user, become: [] };
  if (own !== 0) throw new ShellRefused(`the agent does not run as root, so it cannot open a shell as ${named}`);
  const setpriv = SETPRIV.find((file) => fs.existsSync(file));
  if (setpriv === undefined) throw new ShellRefused(`setpriv is not installed, so no shell can be opened as ${named}`);
  // Drop supplementary groups, one of which may give access to a container engine. Disable setuid programs such as sudo, which could give
  // root.
  const rights = kept_from !== undefined ? ["--clear-groups", "--no-new-privs"] : ["--init-groups"];
  return { ...user, become: [setpriv, `--reuid=${user.uid}`, `--regid=${user.gid}`, ...rights, "--"] };
}

/** Throws ShellRefused if the user is root, is the agent's own user, or may enter the directory. */
function requireKept(directory: string, { name, uid, gid }: Entry, own: number): void {
  const refuse = (why: string): never => {
    throw new ShellRefused(`this robot runs signed releases only: ${why}`);
  };
  if (uid === 0 || uid === own) refuse(`shell.user must be neither root nor the agent's own user, and ${name} is`);
  const { mode, ...owner } = fs.statSync(directory);
  const rights = owner.uid === uid ? mode >> 6 : owner.gid === gid ? mode >> 3 : mode;
  if ((rights & 0o7) !== 0) refuse(`${name} may enter ${directory}: chmod it to 0700, or name another shell.user`);
}

type Entry = Omit<ShellUser, "become">;

/** Finds a user in /etc/passwd, or in the robot's other user databases through getent. */
async function lookUp(name: string): Promise<Entry | undefined> {
  return parseEntry(fromFile(name) ?? (await fromGetent(name)));
}

function fromFile(name: string): string | undefined {
  try {
    const lines = fs.readFileSync("/etc/passwd", "utf8").split("\n");
    return lines.find((line) => {
      const [user, , uid] = line.split(":");
      return user === name || uid === name;
    });
  } catch {
    return undefined;
  }
}

const fromGetent = (name: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    try {
      execFile("getent", ["passwd", "--", name], { timeout: LOOKUP_MS }, (error, stdout) =>
        resolve(error === null ? stdout.trim() : undefined),
      );
    } catch {
      // execFile throws if getent exists but cannot be started.
      resolve(undefined);
    }
  });

function parseEntry(line: string | undefined): Entry | undefined {
  const [name, , uid, gid, , home, shell] = line?.split(":") ?? [];
  if (!name || uid === undefined || gid === undefined) return undefined;
  return { name, uid: Number(uid), gid: Number(gid), home: home || "/", shell: shell || SHELL_OTHERWISE };
}

/** Returns the data of a uid without a passwd entry. The agent may run as such a user in a container. */
function nameless(uid: number, { HOME }: Readonly<Record<string, string>>): Entry {
  const home = HOME !== undefined && path.isAbsolute(HOME) ? HOME : "/";
  return { name: String(uid), uid, gid: process.getgid?.() ?? uid, home, shell: SHELL_OTHERWISE };
}
