import { readFileSync, writeFileSync } from "node:fs";

const LOOK_MS = 50;
/** This value, written to clear_refs, resets the peak memory of a process (proc(5)). */
const RESET_PEAK = "5";

interface Run {
  name: string;
  first: number;
  most: number;
}

/**
 * Records the memory of processes by name: the first reading, and the peak since then. The kernel tracks the peak. It is read frequently,
 * because it is not available after a process was killed.
 */
export class MemoryWatch implements Disposable {
  readonly #runs = new Map<number, Run>();
  readonly #timer = setInterval(() => this.look(), LOOK_MS);

  /** Starts to watch a process from its present memory. A name may have several runs. */
  watch(name: string, pid: number | undefined): void {
    if (pid === undefined) throw new Error(`${name} has no process`);
    writeFileSync(`/proc/${pid}/clear_refs`, RESET_PEAK);
    const { now, most } = read(pid);
    this.#runs.set(pid, { name, first: now, most });
  }

  look(): void {
    for (const [pid, run] of this.#runs) run.most = Math.max(run.most, read(pid).most);
  }

  /** Returns the largest growth of any run of this name, in bytes. */
  growth(name: string): number {
    return Math.max(...this.#of(name).map(({ first, most }) => most - first));
  }

  /** Returns the largest peak of any run of this name, in bytes. */
  most(name: string): number {
    return Math.max(...this.#of(name).map(({ most }) => most));
  }

  #of(name: string): Run[] {
    this.look();
    const runs = [...this.#runs.values()].filter((run) => run.name === name);
    if (runs.length === 0) throw new Error(`no process was watched as ${name}`);
    return runs;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Returns resident memory and its peak in bytes; 0 if the process has ended. */
function read(pid: number): { now: number; most: number } {
  let status = "";
  try {
    status = readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    // The process has ended.
  }
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1] ?? 0) * 1024;
  return { now: field("VmRSS"), most: field("VmHWM") };
}
