import fs from "node:fs";
import path from "node:path";

/** The kernel's own, not below a test's root: the pids are used for signals. */
const PROC = "/proc";

/** A process. Zombies are not listed: they no longer run. */
export interface ProcessEntry {
  pid: number;
  group: number;
  session: number;
  /** Clock ticks since boot. Together with the pid it identifies a process permanently: pids are reused, start times are not. */
  start_time: number;
}

export function readProcess(pid: number): ProcessEntry | undefined {
  let stat: string;
  try {
    stat = fs.readFileSync(path.join(PROC, String(pid), "stat"), "latin1");
  } catch {
    return undefined;
  }
  // The second field is the program's name in parentheses, which may contain any characters, including parentheses and spaces.
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

/**
 * Returns the processes whose environment contains all of `variables`, except those of a user's shell, which has the app's environment. All
 * descendants of a workload inherit its environment. So this finds processes of a killed agent, even if it died before it stored their pid.
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
      // Ended meanwhile, or owned by another user: not ours.
      continue;
    }
    if (!wanted.every((line) => environment.includes(line)) || environment.includes(`${SHELL_VARIABLE}=1`)) continue;
    const entry = readProcess(pid);
    if (entry !== undefined) found.push(entry);
  }
  return found;
}

/** Returns false if the group does not exist. */
export function signalGroup(group: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}
