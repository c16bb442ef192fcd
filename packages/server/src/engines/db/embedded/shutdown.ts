import type { Clock } from "@roamfleet/clock";
import type { Cluster } from "./cluster.ts";
import type { Running } from "./launch.ts";
import { findPostgresOn, sendSignal } from "./postmaster.ts";

/** Fast shutdown ends transactions and writes a checkpoint. */
const FAST_TIMEOUT_MS = 30_000;
/** Immediate shutdown only ends processes; the next start recovers. */
const IMMEDIATE_TIMEOUT_MS = 10_000;
const KILLED_TIMEOUT_MS = 10_000;
const LEFTOVER_POLL_MS = 50;

/** Stops PostgreSQL: fast, then immediate, then by SIGKILL. When it resolves, no process is left. */
export async function shutDown(cluster: Cluster, running: Running): Promise<void> {
  const { log } = cluster;
  const steps = [
    { name: "SIGINT", timeout: FAST_TIMEOUT_MS },
    { name: "SIGQUIT", timeout: IMMEDIATE_TIMEOUT_MS },
    { name: "SIGKILL", timeout: KILLED_TIMEOUT_MS },
  ] as const;
  for (const { name, timeout } of steps) {
    if (!(await running.signal(name))) break;
    if (await endsWithin(cluster, running, timeout)) break;
    log.warn({ pid: running.pid, signal: name, waited_ms: timeout }, "PostgreSQL did not stop in time");
  }
  await childrenEnd(cluster);
}

/** Waits for the children of a killed postmaster, which end shortly after it. Rejects if they do not. */
export async function childrenEnd({ clock, directory }: Cluster): Promise<void> {
  const deadline = clock.monotonic() + KILLED_TIMEOUT_MS;
  while ((await findPostgresOn(directory)).length > 0) {
    if (clock.monotonic() > deadline) throw new Error(`PostgreSQL processes remain on ${directory} after it was stopped`);
    await clock.sleep(LEFTOVER_POLL_MS);
  }
}

async function endsWithin(cluster: Cluster, running: Running, timeout: number): Promise<boolean> {
  const abort = new AbortController();
  const ended = running.exited.then(() => true);
  const late = cluster.clock.sleep(timeout, abort.signal).then(() => false);
  const result = await Promise.race([ended, late]);
  abort.abort();
  return result;
}

/** Kills any PostgreSQL on a directory whose contents are disposable. */
export async function killPostgresOn(directory: string, clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + KILLED_TIMEOUT_MS;
  for (;;) {
    const left = await findPostgresOn(directory);
    if (left.length === 0) return;
    for (const { pid } of left) sendSignal(pid, "SIGKILL");
    if (clock.monotonic() > deadline) throw new Error(`PostgreSQL processes on ${directory} survive SIGKILL`);
    await clock.sleep(LEFTOVER_POLL_MS);
  }
}
