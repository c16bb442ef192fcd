import { execFile } from "node:child_process";
import fs from "node:fs";
import { findProgram, SYSTEM_PATH } from "./spawn-child.ts";

/** A user of this robot. */
export interface User {
  name: string;
  uid: number;
  gid: number;
  home: string;
  shell: string;
}

export interface RunAs extends User {
  /** Command prefix that runs a program as this user; empty for the agent's own user. */
  become: readonly string[];
}

const LOOKUP_MS = 5_000;
export const SHELL_OTHERWISE = "/bin/sh";

/** Finds a user by name or uid in /etc/passwd, or in the robot's other user databases through getent. */
export async function findUser(name: string): Promise<User | undefined> {
  return parseEntry(fromFile(name) ?? (await fromGetent(name)));
}

/** Returns the command prefix for another user, by default with the user's groups; undefined if setpriv is not installed. */
export function becomeUser({ uid, gid }: User, rights: readonly string[] = ["--init-groups"]): string[] | undefined {
  const setpriv = findProgram("setpriv", SYSTEM_PATH);
  return setpriv === undefined ? undefined : [setpriv, `--reuid=${uid}`, `--regid=${gid}`, ...rights, "--"];
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

function parseEntry(line: string | undefined): User | undefined {
  const [name, , uid, gid, , home, shell] = line?.split(":") ?? [];
  if (!name || uid === undefined || gid === undefined) return undefined;
  return { name, uid: Number(uid), gid: Number(gid), home: home || "/", shell: shell || SHELL_OTHERWISE };
}
