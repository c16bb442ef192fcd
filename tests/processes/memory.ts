import { readFileSync, writeFileSync } from "node:fs";

const LOOK_MS = 50;
/** Written to clear_refs, it makes the kernel forget the most that the process had (proc(5)). */
const RESET_PEAK = "5";

interface Run {
  name: string;
  first: number;
  most: number;
}

/**
 * The memory of processes by name: what a run had when it was first looked at, and the most that it had since. The kernel
 * keeps the most; it is read so often because a process that was killed has none any more.
 */
export class MemoryWatch implements Disposable {
  readonly #runs = new Map<number, Run>();
  readonly #timer = setInterval(() => this.look(), LOOK_MS);

  /** Counts from what the process has now. Of one name there may be several runs. */
  watch(name: string, pid: number | undefined): void {
    if (pid === undefined) throw new Error(`${name} has no process`);
    writeFileSync(`/proc/${pid}/clear_refs`, RESET_PEAK);
    const { now, most } = read(pid);
    this.#runs.set(pid, { name, first: now, most });
  }

  look(): void {
    for (const [pid, run] of this.#runs) run.most = Math.max(run.most, read(pid).most);
  }

  /** The most, in bytes, by which any run of this name grew. */
  growth(name: string): number {
    return Math.max(...this.#of(name).map(({ first, most }) => most - first));
  }

  /** The most, in bytes, that any run of this name had. */
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

/** Resident memory and its peak in bytes; nothing when the process has ended. */
function read(pid: number): { now: number; most: number } {
  let status = "";
  try {
    status = readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    // It has ended.
  }
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1] ?? 0) * 1024;
  return { now: field("VmRSS"), most: field("VmHWM") };
}
