import {
  closeSync,
  fstatSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { failpoint } from "@roamfleet/clock/failpoint";
import { parseObject } from "../json.ts";
import { errorCode, isMissing, readIfExists } from "./write-atomically.ts";

export class StateLockedError extends Error {}

interface Holder {
  pid: number;
  /** Start time of the process in clock ticks since boot. It distinguishes the process from a later one with the same pid. */
  started: string;
  boot_id: string;
}

const held = new Set<string>();
const TAKEOVERS_MAX = 5;

/**
 * Locks a state directory and returns a function that unlocks it. `name` is the file name of the lock. Takes over the lock of a dead
 * process (kill -9, power loss). Throws StateLockedError while the owner of the lock is alive.
 *
 * The lock consists of a socket and a file. The socket is in the kernel's abstract namespace: it needs no disk space and disappears with
 * its process. Its name contains the directory's inode number, so every path to the directory gives the same name. The agent keeps the
 * directory open, because the file system may give the number of a deleted directory to a new one, but not while the old one is open.
 * The file says which process is the owner. It also stops agents in other network namespaces, where the socket is not visible. If the disk
 * is full, the file cannot be written. Then the socket alone is the lock.
 */
export function lockState(directory: string, name = "agent.lock"): () => void {
  const path = join(directory, name);
  if (held.has(path)) throw new StateLockedError(`${directory} is in use by another agent in this process`);
  const opened = openSync(directory, "r");
  const { socket, is_taken } = bindSocket(opened, name);
  const release = (): void => {
    socket.close();
    closeSync(opened);
  };
  try {
    takeFile(directory, path, is_taken);
  } catch (error) {
    release();
    throw error;
  }
  held.add(path);
  failpoint("lock:taken", "file");
  return () => {
    if (!held.delete(path)) return;
    rmSync(path, { force: true });
    release();
  };
}

/** Binds the socket; it is bound when `listen` returns. If that fails although no agent has the socket, the file is the only lock. */
function bindSocket(directory: number, name: string): { socket: Server; is_taken: boolean } {
  const { dev, ino, uid } = fstatSync(directory);
  const server = createServer((connection) => connection.destroy()).unref();
  server.on("error", () => {});
  const abstract_name = `roamfleet/${dev}/${ino}/${name}`;
  const socket = server.listen({ path: `\0${abstract_name}` });
  return { socket, is_taken: !socket.listening && isTaken(abstract_name, new Set([0, uid, process.geteuid?.() ?? uid])) };
}

/**
 * Returns whether the socket name is bound by an agent. Every local user can bind the name, so the function counts only processes of root,
 * of the directory's owner and of this process's user. Only root sees the processes behind other users' sockets. If no such process is
 * visible, a bound name counts as an agent.
 */
function isTaken(abstract_name: string, agent_uids: ReadonlySet<number>): boolean {
  const line = readText("/proc/net/unix")
    ?.split("\n")
    .find((text) => text.endsWith(` @${abstract_name}`));
  if (line === undefined) return false;
  const link = `socket:[${line.trim().split(/\s+/)[UNIX_INODE_FIELD]}]`;
  const holders = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && hasOpen(pid, link));
  return holders.length === 0 || holders.some((pid) => agent_uids.has(uidOf(pid)));
}

/** Index of the inode in a line of /proc/net/unix. */
const UNIX_INODE_FIELD = 6;

function hasOpen(pid: string, link: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === link);
  } catch {
    // The process has ended, or belongs to another user.
    return false;
  }
}

/** Returns the real user id of a process. Returns 0 (root) if the process has ended: it then counts as an agent. */
function uidOf(pid: string): number {
  try {
    return Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Creates the lock file. Throws StateLockedError if another agent has the socket or the file. Does nothing on a full disk. */
function takeFile(directory: string, path: string, is_socket_taken: boolean): void {
  const holder = parseHolder(readText(path));
  if (holder !== undefined && lives(holder)) throw new StateLockedError(`${directory} is in use by another agent (process ${holder.pid})`);
  if (is_socket_taken) throw new StateLockedError(`${directory} is in use by another agent`);
  try {
    writeLockFile(directory, path);
  } catch (error) {
    if (!NO_SPACE.has(errorCode(error) ?? "")) throw error;
  }
}

const NO_SPACE = new Set(["ENOSPC", "EDQUOT"]);

function writeLockFile(directory: string, path: string): void {
  const mine = `${path}.${process.pid}`;
  try {
    writeFileSync(mine, JSON.stringify(holderOf(process.pid)), { mode: 0o600 });
    failpoint("lock:prepared", "file");
    for (let tries = 0; ; tries += 1) {
      // Create the file as a hard link, which is atomic: the file appears with its complete content, and only if `path` does not exist.
      if (linked(mine, path)) break;
      const content = readText(path);
      const holder = parseHolder(content);
      if (holder !== undefined && lives(holder))
        throw new StateLockedError(`${directory} is in use by another agent (process ${holder.pid})`);
      if (tries === TAKEOVERS_MAX) throw new StateLockedError(`${directory} could not be locked: other agents keep taking the lock`);
      removeStale(path, content);
    }
  } finally {
    rmSync(mine, { force: true });
  }
}

function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (errorCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** Removes a stale lock file. Renames the file first, and renames it back if another process has replaced it in the meantime. */
function removeStale(path: string, content: string | undefined): void {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  if (readText(aside) !== content) linked(aside, path);
  rmSync(aside, { force: true });
}

const readText = (path: string): string | undefined => readIfExists(path)?.toString("utf8");

/** Parses a lock file. Returns undefined if a power loss has torn it: then its owner is gone, since no process of this boot wrote it. */
function parseHolder(text: string | undefined): Holder | undefined {
  const { pid, started, boot_id } = parseObject(text ?? "") ?? {};
  return typeof pid === "number" && typeof started === "string" && typeof boot_id === "string" ? { pid, started, boot_id } : undefined;
}

function lives(holder: Holder): boolean {
  const now = holderOf(holder.pid);
  return now.started !== "" && now.started === holder.started && now.boot_id === holder.boot_id;
}

function holderOf(pid: number): Holder {
  return { pid, started: startTime(pid), boot_id: (readText("/proc/sys/kernel/random/boot_id") ?? "").trim() };
}

/**
 * Returns the start time of a process, field 22 of /proc/PID/stat; empty if the process is gone. The process name before it may contain
 * spaces and parentheses. Throws any other error, such as a lack of descriptors: the lock of a live process must not be taken over.
 */
function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const after_name = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return after_name[0] === "Z" ? "" : (after_name[19] ?? "");
  } catch (error) {
    // ESRCH: the process ended between opening and reading.
    if (isMissing(error) || errorCode(error) === "ESRCH") return "";
    throw error;
  }
}
