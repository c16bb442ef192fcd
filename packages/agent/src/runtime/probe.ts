import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { HealthCheck } from "./manifest.ts";
import { errorMessage } from "./failure.ts";
import { runCommand } from "./run-command.ts";

export interface ProbeContext {
  directory: string;
  env: Record<string, string>;
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
    return { ok: false, message: `the health check failed: ${errorMessage(error)}` };
  }
}

async function probeCommand(argv: string[], { directory, env, timeout_ms, clock }: ProbeContext): Promise<ProbeResult> {
  const { ok, message } = await runCommand({ argv, cwd: directory, env, timeout_ms, clock });
  return { ok, message: `health command ${argv[0]} ${message}` };
}

function probeHttp(
  { url, expect_status }: { url: string; expect_status: number },
  { timeout_ms, clock }: ProbeContext,
): Promise<ProbeResult> {
  return new Promise((resolve) => {
    const client = url.startsWith("https:") ? https : http;
    const timer = clock.setTimer(timeout_ms, () => request.destroy(new Error(`no answer within ${timeout_ms} ms`)));
    const end = (result: ProbeResult): void => {
      timer.cancel();
      request.destroy();
      resolve(result);
    };
    // A new connection each time: a kept one could belong to an old process.
    const request = client.get(url, { agent: false, headers: { "user-agent": "roamfleet-agent" } }, (response) => {
      const status = response.statusCode ?? 0;
      end({ ok: status === expect_status, message: `${url} answered ${status}, expected ${expect_status}` });
    });
    request.on("error", (error) => end({ ok: false, message: `${url}: ${error.message}` }));
  });
}

function probeFile(check: { path: string; max_age_seconds: number }, { directory, clock }: ProbeContext): ProbeResult {
  try {
    const { mtimeMs } = fs.statSync(path.resolve(directory, check.path));
    // A time in the future counts as age, too: after the clock was set back, the file must be written again.
    const age_seconds = Math.abs(clock.now().getTime() - mtimeMs) / 1_000;
    return {
      ok: age_seconds <= check.max_age_seconds,
      message: `${check.path} is ${age_seconds.toFixed(1)} s old, at most ${check.max_age_seconds} s are healthy`,
    };
  } catch {
    return { ok: false, message: `${check.path} does not exist` };
  }
}
