import fs from "node:fs";
import path from "node:path";

/** The kernel's own: pids to signal are never those of another root. */
const PROC = "/proc";

/** One process as the kernel tells it; a zombie is not listed: it runs nothing any more. */
export interface ProcessEntry {
  pid: number;
  group: number;
  session: number;
  /** Clock ticks since boot. With the pid it names one process for good: pids are used again, start times are not. */
  start_time: number;
}

export function readProcess(pid: number): ProcessEntry | undefined {
  let stat: string;
  try {
    stat = fs.readFileSync(path.join(PROC, String(pid), "stat"), "latin1");
  } catch {
    return undefined;
  }
  // The second field is the program's name in brackets and may hold anything, brackets and spaces too.
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

/** Is in the environment of all that a person's shell runs. */
export const SHELL_VARIABLE = "ROAMFLEET_SHELL";

/**
 * Processes in whose environment all of `variables` stand, except those of a person's shell: a shell of an app has the app's environment. The environment is inherited by all that a workload
 * starts, so this finds what a killed agent left behind even when it died between starting it and writing down its pid.
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
      // Gone meanwhile, or another user's: not ours.
      continue;
    }
    if (!wanted.every((line) => environment.includes(line)) || environment.includes(`${SHELL_VARIABLE}=1`)) continue;
    const entry = readProcess(pid);
    if (entry !== undefined) found.push(entry);
  }
  return found;
}

/** Answers false when there was nobody to signal. */
export function signalGroup(group: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}
