import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Environment variable that marks the processes of a run. Its name does not start with ROAMFLEET_: agents do not pass such variables on to
 * workloads, and doctor warns about them.
 */
const VARIABLE = "RF_TEST_RUN";
const POLL_MS = 200;
/** Grace period between SIGTERM and SIGKILL, longer than dockerd waits for its containers. */
const END_MS_MAX = 20_000;
/** The guard stops waiting this long after SIGKILL, because a process that waits for a device does not end. */
const KILL_MS_MAX = 5_000;

if (import.meta.main) await guard(process.argv[2] as string);

/**
 * Marks the processes that are started from now on, and starts a guard process. When this process ends, the guard ends the marked processes
 * that are left. That works even if this process is killed and runs no exit hooks. `end` ends the marked processes immediately.
 */
export function startGuard(): { end(): Promise<void> } {
  const run = randomUUID();
  process.env[VARIABLE] = run;
  // The guard runs in a separate session, so that Ctrl-C does not reach it. Its empty mark hides it from the guard of an outer run.
  const child = spawn(process.execPath, [import.meta.filename, run], {
    env: { ...process.env, [VARIABLE]: "" },
    detached: true,
    stdio: ["pipe", "ignore", "inherit"],
  });
  // Listen from the start, because the guard may be killed before `end` is called.
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
  /** Start time, which distinguishes the process from a later one with the same id. */
  started: string;
  name: string;
}

/**
 * Waits until stdin closes, then ends the processes of the run. Sends SIGTERM only to processes whose parent is not in the run, because
 * they end their own children. After the grace period, sends SIGKILL to all.
 */
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
 * Returns the run's processes by id: processes with its mark, and processes without any mark that are their descendants or are in `known`
 * since an earlier call. Leaves out processes with the mark of a run inside of this one, or with an empty mark.
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

/** Returns all processes except zombies, which have ended. */
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
export function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

/** Sends a signal, unless the process has ended. */
export function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}
