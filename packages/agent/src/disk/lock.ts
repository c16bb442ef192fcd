import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failpoint } from "@robofleet/clock/failpoint";
import { errorCode, isMissing } from "./write-atomically.ts";

/** Another agent works on this state directory. */
export class StateLockedError extends Error {}

interface Holder {
  pid: number;
  /** Clock ticks between boot and the start of the process: tells it from a later process with the same number. */
  started: string;
  boot_id: string;
}

const held = new Set<string>();
const TAKEOVERS_MAX = 5;

/**
 * Takes a lock file of a state directory, by default `agent.lock`, and answers how to give it back. The lock of a process that
 * is gone (kill -9, power loss) is taken over. Throws StateLockedError while the holder lives.
 */
export function lockState(directory: string, name = "agent.lock"): () => void {
  const path = join(directory, name);
  if (held.has(path)) throw new StateLockedError(`${directory} is in use by another agent in this process`);
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, JSON.stringify(holderOf(process.pid)), { mode: 0o600 });
  failpoint("lock:prepared", "file");
  try {
    for (let tries = 0; ; tries += 1) {
      // A link appears with its content or not at all, and only if nobody else's is there.
      if (linked(mine, path)) break;
      const content = readText(path);
      const holder = parseHolder(content);
      if (holder !== undefined && lives(holder))
        throw new StateLockedError(`${directory} is in use by another agent (process ${holder.pid})`);
      if (tries === TAKEOVERS_MAX) throw new StateLockedError(`${directory} could not be locked: others keep taking it`);
      removeStale(path, content);
    }
  } finally {
    rmSync(mine, { force: true });
  }
  held.add(path);
  failpoint("lock:taken", "file");
  return () => {
    if (held.delete(path)) rmSync(path, { force: true });
  };
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

/** Moves the stale lock away; puts it back if somebody else took over in between. */
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

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** A lock file torn by power loss has no readable holder: nobody of this boot wrote it. */
function parseHolder(text: string | undefined): Holder | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "");
    if (typeof value !== "object" || value === null) return undefined;
    const { pid, started, boot_id } = value as Partial<Holder>;
    return typeof pid === "number" && typeof started === "string" && typeof boot_id === "string" ? { pid, started, boot_id } : undefined;
  } catch {
    return undefined;
  }
}

function lives(holder: Holder): boolean {
  const now = holderOf(holder.pid);
  return now.started !== "" && now.started === holder.started && now.boot_id === holder.boot_id;
}

function holderOf(pid: number): Holder {
  return { pid, started: startTime(pid), boot_id: (readText("/proc/sys/kernel/random/boot_id") ?? "").trim() };
}

/** Field 22 of /proc/PID/stat; the name before it may hold spaces and brackets. Empty when the process is gone. */
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
