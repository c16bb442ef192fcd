import type { Clock } from "@roamfleet/clock";
import type { Verdict } from "./executor.ts";
import { throwIfAborted } from "./failure.ts";
import { CRASH_LOOP_EXITS, PROBE_STREAK, type Timing, VERIFY_SECONDS_MAX } from "./limits.ts";
import type { ProbeResult } from "./probe.ts";
import type { Workload } from "./workload.ts";

/** What is monitored: a child process, or a container. */
export type Watched = Pick<Workload, "pid" | "alive" | "exits" | "last_exit">;

export interface VerifyOptions {
  workload: Watched;
  /** undefined: being up is the only health check. */
  probe: (() => Promise<ProbeResult>) | undefined;
  verify_seconds: number;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
}

/** Minimum number of probes in a window that is too short for three probes a second apart. */
const PROBES_MIN = 5;

/**
 * Monitors a workload for the whole window. It is healthy if the last consecutive probes succeeded, up to the end, all on the same process. A crash
 * loop ends the window early.
 */
export async function verifyWorkload({ workload, probe, verify_seconds, clock, timing, signal }: VerifyOptions): Promise<Verdict> {
  const window_ms = Math.min(Math.max(verify_seconds, 0), VERIFY_SECONDS_MAX) * 1_000;
  const interval_ms = Math.min(timing.probe_interval_ms, window_ms / PROBES_MIN);
  const end = clock.monotonic() + window_ms;
  let streak = 0;
  let pid = workload.pid;
  let last: ProbeResult = { ok: false, message: "it was never probed" };
  for (let probes = 1; ; probes += 1) {
    throwIfAborted(signal);
    // Read before the probe, so that the last result is from the end of the window or later.
    const at_end = clock.monotonic() >= end && probes >= PROBE_STREAK;
    last = probe === undefined ? { ok: true, message: "it is up" } : await probe();
    const up = workload.pid !== undefined && workload.pid === pid;
    pid = workload.pid;
    streak = last.ok && up ? streak + 1 : 0;
    throwIfAborted(signal);
    if (workload.exits >= CRASH_LOOP_EXITS) return crashed(workload);
    if (at_end) return verdict(workload, streak, last);
    await clock.sleep(Math.max(1, Math.min(interval_ms, end - clock.monotonic())), signal);
  }
}

function verdict(workload: Watched, streak: number, last: ProbeResult): Verdict {
  if (streak >= PROBE_STREAK) return { healthy: true };
  if (!workload.alive || workload.exits > 0) return crashed(workload);
  const message = last.ok ? `it was healthy only for the last ${streak} probes, ${PROBE_STREAK} in a row are needed` : last.message;
  return { healthy: false, reason: "health_check_failed", message };
}

const crashed = ({ exits, last_exit }: Watched): Verdict => ({
  healthy: false,
  reason: "crash_loop",
  message: `the program ${last_exit ?? "is not running"} (exited ${exits} ${exits === 1 ? "time" : "times"} during verification)`,
});
