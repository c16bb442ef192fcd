import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

/** A shell that cannot be had, in words for whoever asked for it. */
export class ShellRefused extends Error {}

export interface ShellUser {
  name: string;
  uid: number;
  gid: number;
  home: string;
  /** The login shell. */
  shell: string;
  /** Words before the program that make it run as this user; none for the agent's own. */
  become: readonly string[];
}

const LOOKUP_MS = 5_000;
const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv", "/usr/sbin/setpriv", "/sbin/setpriv"];
const SHELL_OTHERWISE = "/bin/sh";

/**
 * Whose shell is opened: the user that the robot's config names, or the agent's own; `environment` names that one's home when no file of
 * users does. Throws ShellRefused when that is root and nobody said so, when there is no such user, and when the agent may not become it.
 */
export async function findShellUser(named: string | undefined, environment: Readonly<Record<string, string>> = {}): Promise<ShellUser> {
  const own = process.getuid?.() ?? 0;
  if (named === undefined) {
    if (own === 0) throw new ShellRefused("the agent runs as root: name a user for shells in its config file (shell.user), or root itself");
    return { ...((await lookUp(String(own))) ?? nameless(own, environment)), become: [] };
  }
  const user = await lookUp(named);
  if (user === undefined) throw new ShellRefused(`there is no user ${named} on the robot`);
  if (user.uid === own) return { ...user, become: [] };
  if (own !== 0) throw new ShellRefused(`the agent does not run as root, and so cannot open a shell of ${named}`);
  const setpriv = SETPRIV.find((file) => fs.existsSync(file));
  if (setpriv === undefined) throw new ShellRefused(`setpriv is not installed, and so no shell of ${named} can be opened`);
  return { ...user, become: [setpriv, `--reuid=${user.uid}`, `--regid=${user.gid}`, "--init-groups", "--"] };
}

type Entry = Omit<ShellUser, "become">;

/** Users that are in no file count too: getent asks whatever the robot is set up to ask. */
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
      // Node throws when the program is there and cannot be started.
      resolve(undefined);
    }
  });

function parseEntry(line: string | undefined): Entry | undefined {
  const [name, , uid, gid, , home, shell] = line?.split(":") ?? [];
  if (!name || uid === undefined || gid === undefined) return undefined;
  return { name, uid: Number(uid), gid: Number(gid), home: home || "/", shell: shell || SHELL_OTHERWISE };
}

/** In a container the agent may run as a number that no user has. */
function nameless(uid: number, { HOME }: Readonly<Record<string, string>>): Entry {
  const home = HOME !== undefined && path.isAbsolute(HOME) ? HOME : "/";
  return { name: String(uid), uid, gid: process.getgid?.() ?? uid, home, shell: SHELL_OTHERWISE };
}

/** Absolute path of a program as the user would find it, or undefined. */
export function findProgram(name: string, cwd: string, search: string): string | undefined {
  const candidates = name.includes("/")
    ? [path.resolve(cwd, name)]
    : search.split(":").map((directory) => path.resolve(cwd, directory, name));
  return candidates.find((file) => {
    try {
      fs.accessSync(file, fs.constants.X_OK);
      return fs.statSync(file).isFile();
    } catch {
      return false;
    }
  });
}
