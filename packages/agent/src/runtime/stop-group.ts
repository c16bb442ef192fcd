import type { Clock } from "@roamfleet/clock";
import { KILL_WAIT_MS } from "./limits.ts";
import { groupMembers, type ProcessEntry, readProcess, signalGroup } from "./process-table.ts";

const POLL_FIRST_MS = 10;
const POLL_LAST_MS = 200;

async function waitUntil(clock: Clock, timeout_ms: number, done: () => boolean): Promise<boolean> {
  const deadline = clock.monotonic() + timeout_ms;
  for (let wait = POLL_FIRST_MS; !done(); wait = Math.min(POLL_LAST_MS, wait * 2)) {
    const left = deadline - clock.monotonic();
    if (left <= 0) return false;
    await clock.sleep(Math.min(wait, left));
  }
  return true;
}

export interface StopOptions {
  clock: Clock;
  /** Time for the group to end after SIGTERM, before SIGKILL. */
  grace_ms: number;
}

/** Ends a whole process group: SIGTERM, then SIGKILL. Returns false if it survives even that (stuck in the kernel). */
export async function stopGroup(group: number, { clock, grace_ms }: StopOptions): Promise<boolean> {
  const gone = (): boolean => groupMembers(group).length === 0;
  if (gone()) return true;
  signalGroup(group, "SIGTERM");
  if (await waitUntil(clock, grace_ms, gone)) return true;
  signalGroup(group, "SIGKILL");
  return waitUntil(clock, KILL_WAIT_MS, gone);
}

/** Ends processes of an earlier agent, each with its group, if they are still the same processes. */
export async function stopStrays(strays: ProcessEntry[], options: StopOptions): Promise<void> {
  const own = readProcess(process.pid)?.group;
  const groups = new Set<number>();
  for (const stray of strays) {
    const now = readProcess(stray.pid);
    if (now?.start_time === stray.start_time && now.group > 1 && now.group !== own) groups.add(now.group);
  }
  await Promise.all([...groups].map((group) => stopGroup(group, options)));
}
