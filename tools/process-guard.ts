import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** Variable that the processes of a run inherit. Not ROAMFLEET_…: an agent does not pass these on to its workloads, and doctor warns of them. */
const VARIABLE = "RF_TEST_RUN";
const POLL_MS = 200;
/** Time to end in an orderly way, longer than dockerd waits for its containers. */
const END_MS_MAX = 20_000;
/** Time to end after SIGKILL. A process that waits for a device does not. */
const KILL_MS_MAX = 5_000;

if (import.meta.main) await guard(process.argv[2] as string);

/**
 * Marks the processes that are started from now on, and starts a guard that ends those that are left when this process ends, also when it
 * is killed: a killed test process runs no hooks. `end` ends them now.
 */
export function startGuard(): { end(): Promise<void> } {
  const run = randomUUID();
  process.env[VARIABLE] = run;
  // In a separate session: Ctrl-C reaches the run, but not its guard. The empty mark excepts it from an outer run.
  const child = spawn(process.execPath, [import.meta.filename, run], {
    env: { ...process.env, [VARIABLE]: "" },
    detached: true,
    stdio: ["pipe", "ignore", "inherit"],
  });
  // Listens from the start: the guard itself may have been killed before `end`.
  const ended = once(child, "close");
  return {
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

interface Found {
  pid: number;
  parent: number;
  /** Distinguishes it from a later process with the same id. */
  started: string;
  name: string;
}

/** Waits until stdin closes, then ends the processes of the run. Those whose parent ended get SIGTERM, and end their own children. */
async function guard(run: string): Promise<void> {
  process.stdin.resume();
  await once(process.stdin, "close");
  const known = new Set<string>();
  const asked = new Map<number, string>();
  const began = performance.now();
  for (let left = findLeft(run, known); left.size > 0; left = findLeft(run, known)) {
    const ms = performance.now() - began;
    if (ms > END_MS_MAX + KILL_MS_MAX) break;
    for (const { pid, parent, name } of left.values()) {
      if (ms > END_MS_MAX) send(pid, "SIGKILL");
      else if (!left.has(parent) && !asked.has(pid)) {
        asked.set(pid, name);
        send(pid, "SIGTERM");
      }
    }
    await sleep(POLL_MS);
  }
  if (asked.size === 0) return;
  const names = Array.from(asked, ([pid, name]) => `${name} (${pid})`);
  process.stderr.write(`roamfleet: ended processes that the tests left behind: ${names.join(", ")}\n`);
}

/**
 * Returns the run's processes by id: those marked, their descendants, whose environment may be another one, and those that were either when
 * they were `known`. A process with another mark belongs to a run inside of this one, and an empty mark excepts a process.
 */
function findLeft(run: string, known: Set<string>): Map<number, Found> {
  const all = findProcesses();
  const marks = new Map(all.map(({ pid }) => [pid, readMark(pid)]));
  const left = new Map<number, Found>();
  for (let before = -1; left.size > before;) {
    before = left.size;
    for (const found of all) {
      const mark = marks.get(found.pid);
      const is_own = mark === run || (mark === undefined && (left.has(found.parent) || known.has(keyOf(found))));
      if (is_own) left.set(found.pid, found);
    }
  }
  for (const found of left.values()) known.add(keyOf(found));
  return left;
}

function keyOf({ pid, started }: Found): string {
  return `${pid} ${started}`;
}

/** Without zombies, which have ended. */
function findProcesses(): Found[] {
  return readdirSync("/proc").flatMap((entry) => {
    const stat = /^\d+$/.test(entry) ? read(`/proc/${entry}/stat`) : "";
    const [, pid, name = "", rest = ""] = /^(\d+) \((.*)\) (.*)$/s.exec(stat) ?? [];
    const fields = rest.split(" ");
    return pid === undefined || fields[0] === "Z" ? [] : [{ pid: Number(pid), name, parent: Number(fields[1]), started: fields[19] ?? "" }];
  });
}

function readMark(pid: number): string | undefined {
  const line = read(`/proc/${pid}/environ`)
    .split("\0")
    .find((text) => text.startsWith(`${VARIABLE}=`));
  return line?.slice(VARIABLE.length + 1);
}

/** Returns "" for a process that has ended or belongs to another user. */
function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}
