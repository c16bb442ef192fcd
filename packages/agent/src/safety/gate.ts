import http from "node:http";
import https from "node:https";
import type { Clock } from "@roamfleet/clock";
import { OUTPUT_TAIL_CHARACTERS } from "../runtime/limits.ts";
import { runCommand } from "../runtime/run-command.ts";

/** The safe-to-update check: a command or URL of the robot that decides whether it may be updated now. */
export type SafeToUpdate = ({ command: string } | { url: string }) & { timeout_ms: number };

export const GATE_TIMEOUT_SECONDS_DEFAULT = 10;
export const GATE_TIMEOUT_SECONDS_MAX = 300;

export interface GateAnswer {
  safe: boolean;
  /** The reason, at most a few hundred characters. */
  why: string;
}

export interface GateContext {
  env: Record<string, string>;
  directory: string;
  clock: Clock;
  /** Aborted when the agent stops. */
  signal: AbortSignal;
}

/** Runs the check once. Returns within the timeout and never throws: only an explicit yes counts as safe. */
export async function askGate(gate: SafeToUpdate, context: GateContext): Promise<GateAnswer> {
  if ("url" in gate)
    return askUrl(gate.url, gate.timeout_ms, context).catch((error: Error) => ({ safe: false, why: `${gate.url}: ${error.message}` }));
  const { env, directory, clock, signal } = context;
  const argv = ["/bin/sh", "-c", gate.command];
  const { ok, message } = await runCommand({ argv, cwd: directory, env, timeout_ms: gate.timeout_ms, clock, signal });
  return { safe: ok, why: `the safe-to-update command ${message}` };
}

function askUrl(url: string, timeout_ms: number, { clock, signal }: GateContext): Promise<GateAnswer> {
  return new Promise((resolve) => {
    const client = url.startsWith("https:") ? https : http;
    const timer = clock.setTimer(timeout_ms, () => request.destroy(new Error(`no answer within ${timeout_ms} ms`)));
    const end = (answer: GateAnswer): void => {
      timer.cancel();
      request.destroy();
      resolve(answer);
    };
    // A new connection each time: a kept one could belong to an old process.
    const request = client.get(url, { agent: false, headers: { "user-agent": "roamfleet-agent" }, signal }, (response) => {
      const status = response.statusCode ?? 0;
      if (status === 200) return end({ safe: true, why: `${url} answered 200` });
      let body = "";
      const say = (): void => end({ safe: false, why: `${url} answered ${status}${body.trim() === "" ? "" : `: ${body.trim()}`}` });
      response.on("data", (chunk: Buffer) => {
        body = (body + chunk.toString("utf8")).slice(0, OUTPUT_TAIL_CHARACTERS);
        if (body.length === OUTPUT_TAIL_CHARACTERS) say();
      });
      response.on("end", say);
      response.on("error", say);
    });
    request.on("error", (error) => end({ safe: false, why: `${url}: ${error.message}` }));
  });
}
