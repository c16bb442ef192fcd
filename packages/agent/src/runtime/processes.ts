import fs from "node:fs";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { KILL_WAIT_MS } from "./limits.ts";

/** The kernel's real /proc, even in tests with another root directory, since pids that are read here are sent signals. */
const PROC = "/proc";

/** A running process. Zombies do not count. */
export interface ProcessEntry {
  pid: number;
  group: number;
  session: number;
  /** Start time in clock ticks since boot. With the pid it identifies a process uniquely, since pids are reused. */
  start_time: number;
}

export function readProcess(pid: number): ProcessEntry | undefined {
  let stat: string;
  try {
    stat = fs.readFileSync(path.join(PROC, String(pid), "stat"), "latin1");
  } catch {
    return undefined;
  }
  // The second field is the program's name in parentheses. The name may contain any characters, including parentheses and spaces, so search
  // for the last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, , group, session] = fields;
  if (state === undefined || state === "Z" || state === "X") return undefined;
  return { pid, group: Number(group), session: Number(session), start_time: Number(fields[19]) };
}

function listPids(): number[] {
  try {
    return fs
      .readdirSync(PROC)
      .map(Number)
      .filter((pid) => Number.isInteger(pid) && pid > 1);
  } catch {
    return [];
  }
}

export function allProcesses(): ProcessEntry[] {
  const entries: ProcessEntry[] = [];
  for (const pid of listPids()) {
    const entry = readProcess(pid);
    if (entry !== undefined) entries.push(entry);
  }
  return entries;
}

export const groupMembers = (group: number): ProcessEntry[] => allProcesses().filter((entry) => entry.group === group);

/** Environment variable of all processes of a user's shell. */
export const SHELL_VARIABLE = "ROAMFLEET_SHELL";
/** Environment variable of the processes of a wrapper, but not of its program. */
export const WRAPPER_VARIABLE = "ROAMFLEET_WRAPPER";
const LEFT_OUT = [SHELL_VARIABLE, WRAPPER_VARIABLE];

/**
 * Returns the processes whose environment contains all of `variables`. All descendants of a workload inherit its environment. So this finds
 * processes of a killed agent, even if that agent died before it stored their pids. Processes of a user's shell, and the wrapper around the
 * program, have the app's environment, too, and are left out unless `variables` contains their variable.
 */
export function processesWithEnvironment(variables: Record<string, string>): ProcessEntry[] {
  const wanted = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  const found: ProcessEntry[] = [];
  for (const pid of listPids()) {
    if (pid === process.pid) continue;
    let environment: string[];
    try {
      environment = fs.readFileSync(path.join(PROC, String(pid), "environ"), "utf8").split("\0");
    } catch {
      // The process has ended or belongs to another user, so it is not one of ours.
      continue;
    }
    if (!wanted.every((line) => environment.includes(line))) continue;
    if (LEFT_OUT.some((name) => variables[name] === undefined && environment.includes(`${name}=1`))) continue;
    const entry = readProcess(pid);
    if (entry !== undefined) found.push(entry);
  }
  return found;
}

/** Sends a signal to a process group. Returns false if the group does not exist. */
export function signalGroup(group: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}

const POLL_FIRST_MS = 10;
const POLL_LAST_MS = 200;

/** Polls `done` at increasing intervals until it returns true. Returns false if that does not happen within the timeout. */
export async function waitUntil(clock: Clock, timeout_ms: number, done: () => boolean): Promise<boolean> {
  const deadline = clock.monotonic() + timeout_ms;
  for (let wait = POLL_FIRST_MS; !done(); wait = Math.min(POLL_LAST_MS, wait * 2)) {
    const left = deadline - clock.monotonic();
    if (left <= 0) return false;
    await clock.sleep(Math.min(wait, left));
  }
  return true;
}

interface StopOptions {
  clock: Clock;
  /** Wait between SIGTERM and SIGKILL, in milliseconds. */
  grace_ms: number;
}

/** Ends a process group with SIGTERM, then SIGKILL. Returns false if a process survives SIGKILL because it is stuck in the kernel. */
export async function stopGroup(group: number, { clock, grace_ms }: StopOptions): Promise<boolean> {
  const gone = (): boolean => groupMembers(group).length === 0;
  if (gone()) return true;
  signalGroup(group, "SIGTERM");
  if (await waitUntil(clock, grace_ms, gone)) return true;
  signalGroup(group, "SIGKILL");
  return waitUntil(clock, KILL_WAIT_MS, gone);
}

/** Ends the process groups of processes that an earlier agent started. Skips a pid that now belongs to another process. */
export async function stopStrays(strays: ProcessEntry[], options: StopOptions): Promise<void> {
  const own = readProcess(process.pid)?.group;
  const groups = new Set<number>();
  for (const stray of strays) {
    const now = readProcess(stray.pid);
    if (now?.start_time === stray.start_time && now.group > 1 && now.group !== own) groups.add(now.group);
  }
  await Promise.all([...groups].map((group) => stopGroup(group, options)));
}
