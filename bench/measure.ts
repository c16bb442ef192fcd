import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** Statistics of a number measured several times. */
export interface Sample {
  median: number;
  min: number;
  max: number;
}

export function sample(values: readonly number[]): Sample {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (i: number): number => sorted[i] ?? Number.NaN;
  const middle = Math.floor(sorted.length / 2);
  const median = sorted.length % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2;
  return { median, min: at(0), max: at(sorted.length - 1) };
}

/** User and system time of a process's threads in microseconds: from the scheduler's counter, which is more precise than ticks of 10 ms. */
export function cpuMicroseconds(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [ran = "0"] = readOr(`/proc/${pid}/task/${thread}/schedstat`, "0").split(" ");
    nanoseconds += Number(ran);
  }
  return nanoseconds / 1_000;
}

/** A thread may end between being listed and being read. */
function readOr(file: string, instead: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return instead;
  }
}

const REST_MS = 200;
const REST_CPU_US = 4_000;
const REST_TIMEOUT_MS = 120_000;

/** Waits until a process is idle, so that an operation's follow-up work is not attributed to the next one. */
export async function atRest(pid: number): Promise<void> {
  const deadline = performance.now() + REST_TIMEOUT_MS;
  for (let before = cpuMicroseconds(pid); ;) {
    await sleep(REST_MS);
    const now = cpuMicroseconds(pid);
    if (now - before < REST_CPU_US) return;
    if (performance.now() > deadline) throw new Error(`process ${pid} did not become idle`);
    before = now;
  }
}

/** Resident memory of a process in bytes. */
export function residentBytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? Number.NaN) * 1024;
}

export interface Round {
  /** Wall-clock microseconds per operation. */
  wall_us: number;
  /** CPU microseconds of the measured process per operation. */
  cpu_us: number;
}

const LIMIT_FACTOR = 1.1;

/** Compares ours with the larger of `max` and 1.1 times the limit, because on a slow machine the limit itself may be above `max`. */
export const goalOrLimit = (ours: Sample, limit: Sample, max: number, unit: string): { goal: string; met: boolean } => ({
  goal: `≤ ${max} ${unit} or ≤ ${LIMIT_FACTOR} × the limit`,
  met: ours.median <= Math.max(max, LIMIT_FACTOR * limit.median),
});

export const ratioOf = (ours: Sample, limit: Sample): number => ours.median / limit.median;

/** Counts the operations of one process for a given time. `work` returns the number of operations. */
export async function round(pid: number, work: () => Promise<number>): Promise<Round> {
  const [cpu, started] = [cpuMicroseconds(pid), performance.now()];
  const operations = await work();
  const wall_ms = performance.now() - started;
  return { wall_us: (wall_ms * 1_000) / operations, cpu_us: (cpuMicroseconds(pid) - cpu) / operations };
}

export interface Side {
  wall: Sample;
  cpu: Sample;
}

export const side = (rounds: readonly Round[]): Side => ({
  wall: sample(rounds.map(({ wall_us }) => wall_us)),
  cpu: sample(rounds.map(({ cpu_us }) => cpu_us)),
});

/**
 * Measures our server and the limit alternately, so that other load affects both. The first round of each is a warm-up and is not counted.
 */
export async function alternately<T>(rounds: number, ours: () => Promise<T>, limit: () => Promise<T>): Promise<{ ours: T[]; limit: T[] }> {
  const found: { ours: T[]; limit: T[] } = { ours: [], limit: [] };
  for (let i = 0; i <= rounds; i += 1) {
    const [a, b] = [await ours(), await limit()];
    if (i === 0) continue;
    found.ours.push(a);
    found.limit.push(b);
  }
  return found;
}

/** Measures rounds of our server and of the limit alternately. Returns the ratios of their wall-clock times, too. */
export async function byTurns(
  rounds: number,
  ours: () => Promise<Round>,
  limit: () => Promise<Round>,
): Promise<{ ours: Side; limit: Side; ratio: Sample }> {
  const { ours: a, limit: b } = await alternately(rounds, ours, limit);
  return { ours: side(a), limit: side(b), ratio: sample(a.map((one, i) => one.wall_us / (b[i]?.wall_us ?? Number.NaN))) };
}
