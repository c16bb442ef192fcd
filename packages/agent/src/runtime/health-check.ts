import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { HealthCheck } from "./manifest.ts";
import { type FailureReason, throwIfAborted } from "./failure.ts";
import { runCommand } from "./spawn-child.ts";
import type { RunAs } from "./users.ts";
import { CRASH_LOOP_EXITS, PROBE_STREAK, type Timing, VERIFY_SECONDS_MAX } from "./limits.ts";
import { errorText } from "../disk/write-atomically.ts";

interface ProbeContext {
  directory: string;
  env: Record<string, string>;
  /** Returns the user that commands run as; absent: the agent's. */
  user?: () => Promise<RunAs | undefined>;
  timeout_ms: number;
  clock: Clock;
}

export interface ProbeResult {
  ok: boolean;
  message: string;
}

/** Checks a workload's health once. Returns within the timeout and never throws. */
export async function probe(check: HealthCheck, context: ProbeContext): Promise<ProbeResult> {
  try {
    if ("http" in check) return await probeHttp(check.http, context);
    if ("command" in check) return await probeCommand(check.command, context);
    return probeFile(check.file, context);
  } catch (error) {
    return { ok: false, message: `the health check failed: ${errorText(error)}` };
  }
}

async function probeCommand(argv: string[], { directory, env, user, timeout_ms, clock }: ProbeContext): Promise<ProbeResult> {
  const become = (await user?.())?.become ?? [];
  const { ok, message } = await runCommand({ argv: [...become, ...argv], cwd: directory, env, timeout_ms, clock });
  return { ok, message: `health command ${argv[0]} ${message}` };
}

async function probeHttp(
  { url, expect_status }: { url: string; expect_status: number },
  { timeout_ms, clock }: ProbeContext,
): Promise<ProbeResult> {
  try {
    const { status } = await getOnce(url, { timeout_ms, clock });
    return { ok: status === expect_status, message: `${url} returned status ${status}, expected ${expect_status}` };
  } catch (error) {
    return { ok: false, message: `${url}: ${errorText(error)}` };
  }
}

interface GetOptions {
  timeout_ms: number;
  clock: Clock;
  signal?: AbortSignal;
  /** Maximum characters of the body to read if the status is not 200; default 0. */
  body_max?: number;
}

/** Sends one GET. Returns the status and the first characters of the body. Throws if there is no response within the timeout. */
export function getOnce(url: string, { timeout_ms, clock, signal, body_max = 0 }: GetOptions): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const client = url.startsWith("https:") ? https : http;
    const timer = clock.setTimer(timeout_ms, () => request.destroy(new Error(`no answer within ${timeout_ms} ms`)));
    let body = "";
    // Open a new connection each time, since an existing connection could belong to an old process of the workload.
    const options = { agent: false, headers: { "user-agent": "roamfleet-agent" }, ...(signal === undefined ? {} : { signal }) };
    const request = client.get(url, options, (response) => {
      const end = (): void => {
        timer.cancel();
        request.destroy();
        resolve({ status: response.statusCode ?? 0, body: body.trim() });
      };
      if (body_max === 0 || response.statusCode === 200) return end();
      response.on("data", (chunk: Buffer) => {
        body = (body + chunk.toString("utf8")).slice(0, body_max);
        if (body.length === body_max) end();
      });
      response.on("end", end).on("error", end);
    });
    request.on("error", (error) => {
      timer.cancel();
      reject(error);
    });
  });
}

function probeFile(check: { path: string; max_age_seconds: number }, { directory, clock }: ProbeContext): ProbeResult {
  try {
    const { mtimeMs } = fs.statSync(path.resolve(directory, check.path));
    // If the file's time is in the future, the difference counts as its age, too. So after the clock was set back, the workload must write
    // the file again.
    const age_seconds = Math.abs(clock.now().getTime() - mtimeMs) / 1_000;
    return {
      ok: age_seconds <= check.max_age_seconds,
      message: `${check.path} is ${age_seconds.toFixed(1)} s old; the maximum is ${check.max_age_seconds} s`,
    };
  } catch {
    return { ok: false, message: `${check.path} does not exist` };
  }
}

export type Verdict = { healthy: true } | { healthy: false; reason: FailureReason; message: string };

/** The process or container that is monitored. */
interface Watched {
  readonly pid: number | undefined;
  readonly alive: boolean;
  readonly exits: number;
  readonly last_exit: string | null;
}

interface VerifyOptions {
  workload: Watched;
  /** Checks the health once; undefined: the workload is healthy if it is up. */
  probe: (() => Promise<ProbeResult>) | undefined;
  verify_seconds: number;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
}

/**
 * Minimum number of probe intervals in a verification window. In a short window, the interval is reduced so that enough consecutive probes
 * fit.
 */
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
  let last: ProbeResult = { ok: false, message: "the app was never checked" };
  for (let probes = 1; ; probes += 1) {
    throwIfAborted(signal);
    // Read the clock before the probe. Then the last probe starts at the end of the window or later.
    const at_end = clock.monotonic() >= end && probes >= PROBE_STREAK;
    last = probe === undefined ? { ok: true, message: "running" } : await probe();
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
  const message = last.ok ? `healthy only for the last ${streak} checks; ${PROBE_STREAK} in a row are needed` : last.message;
  return { healthy: false, reason: "health_check_failed", message };
}

const crashed = ({ exits, last_exit }: Watched): Verdict => ({
  healthy: false,
  reason: "crash_loop",
  message: `the program ${last_exit ?? "is not running"} (exited ${exits} ${exits === 1 ? "time" : "times"} during verification)`,
});
