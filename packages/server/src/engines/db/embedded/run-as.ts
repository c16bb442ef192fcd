import { chown, lstat, readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { Refusal } from "./refusal.ts";
import { run } from "./run.ts";

/**
 * How to start PostgreSQL, which refuses to run as root. A server that runs as root starts it under another account or in a user namespace.
 * In a user namespace, root appears as an ordinary user but can still access root's 0700 directories.
 */
export interface RunAs {
  /** Words to put before the command. */
  prefix: readonly string[];
  /** Account to switch to; absent to keep the current one. */
  account?: { uid: number; gid: number };
}

const UNSHARE = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"] as const;

/**
 * Decides how to start PostgreSQL on `directory`. The parent directory must exist; the directory itself may be absent.
 *
 * @param directory the database's directory
 * @param bin directory of PostgreSQL's binaries
 * @param userNamespaces false: do not use them, as in containers where the kernel disables them
 * @throws Refusal when the directory is another user's, or no account can reach it.
 */
export async function chooseRunAs(directory: string, bin: string, userNamespaces: boolean): Promise<RunAs> {
  const me = process.getuid?.() ?? 0;
  const existing = await stat(directory).catch(() => undefined);
  if (me !== 0) {
    if (existing && existing.uid !== me) {
      throw new Refusal(
        `${directory} belongs to user ${existing.uid} and this server runs as user ${me}: start it as that user, or choose another --data directory`,
      );
    }
    return { prefix: [] };
  }
  if (existing && existing.uid !== 0) return { prefix: [], account: { uid: existing.uid, gid: existing.gid } };
  if (userNamespaces && (await run(UNSHARE[0], [...UNSHARE.slice(1), "true"])).code === 0) return { prefix: UNSHARE };

  const account = await plainAccount();
  const parent = path.dirname(directory);
  for (const place of [bin, parent]) {
    const reach = await run("/bin/sh", ["-c", 'cd -- "$0"', place], { cwd: "/", ...account });
    if (reach.code === 0) continue;
    throw new Refusal(
      `PostgreSQL does not run as root, user namespaces are disabled here, and user ${account.uid} cannot reach ${place}: start the server as a user other than root, or choose a directory that user ${account.uid} can access`,
    );
  }
  return { prefix: [], account };
}

/** Returns the account of the system's PostgreSQL if it exists, else an unprivileged one. */
async function plainAccount(): Promise<{ uid: number; gid: number }> {
  const passwd = await readFile("/etc/passwd", "utf8").catch(() => "");
  for (const name of ["postgres", "nobody"]) {
    const fields = passwd
      .split("\n")
      .find((line) => line.startsWith(`${name}:`))
      ?.split(":");
    if (fields) return { uid: Number(fields[2]), gid: Number(fields[3]) };
  }
  return { uid: 65534, gid: 65534 };
}

/** Returns program and arguments with the prefix applied, and the spawn options that switch the account. */
export function commandFor(
  runAs: RunAs,
  program: string,
  args: readonly string[],
): { file: string; args: string[]; account: { uid?: number; gid?: number } } {
  const [file = program, ...rest] = [...runAs.prefix, program, ...args];
  return { file, args: rest, account: runAs.account ?? {} };
}

/** Changes the owner of a file or directory tree to the account that PostgreSQL runs under. No effect if that is the current account. */
export async function giveTo(runAs: RunAs, target: string): Promise<void> {
  if (!runAs.account) return;
  const { uid, gid } = runAs.account;
  const info = await lstat(target);
  if (info.isSymbolicLink()) return;
  if (info.uid !== uid) await chown(target, uid, gid);
  if (!info.isDirectory()) return;
  for (const name of await readdir(target)) await giveTo(runAs, path.join(target, name));
}
