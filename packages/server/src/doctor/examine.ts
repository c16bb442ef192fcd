import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { ServeFlags, Settings } from "../config.ts";
import { probeDatabase } from "../engines/db/index.ts";
import { Refusal, runningDatabase } from "../engines/db/embedded/index.ts";
import { CHECKS } from "./checks.ts";
import type { Check, DoctorContext, Reached } from "./context.ts";
import { type Finding, problem, type Seen } from "./finding.ts";
import { readAllSettings } from "./read-settings.ts";
import { said, secretsOf, shownTime } from "./shown.ts";

export interface ExamineOptions {
  flags: ServeFlags;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  /** Time limit of each check. */
  timeout_ms: number;
  /** Default: all. */
  checks?: readonly Check[];
  /** Called with the findings of each check, in the order of the checks. */
  told?: (findings: readonly Finding[]) => void;
}

/** Time for a check to clean up after its time limit, but not longer than the limit itself. */
const GRACE_MS = 2_000;

/** Runs all checks concurrently and returns their findings in order. Never rejects, and leaves nothing behind. */
export async function examine({ flags, env, clock, timeout_ms, checks = CHECKS, told }: ExamineOptions): Promise<Finding[]> {
  const { settings, wrong_parts, errors } = readAllSettings(flags, env);
  const reached = once(async () =>
    wrong_parts.has("database") ? { absent: "see settings" } : await reachDatabase(settings, { clock, timeout_ms }),
  );
  const context = { settings, wrong_parts, wrong_settings: errors, env, clock, timeout_ms, database: reached };
  const running = checks.map((check) => runCheck(check, context));
  const findings: Finding[] = [];
  for (const one of running) {
    const found = await one;
    told?.(found);
    findings.push(...found);
  }
  return findings;
}

/** Runs one check with its time limit. An error that it throws becomes a problem. */
export async function runCheck({ name, check, timeout_ms_min = 0 }: Check, context: Omit<DoctorContext, "signal">): Promise<Finding[]> {
  const { clock, settings } = context;
  const timeout_ms = Math.max(context.timeout_ms, timeout_ms_min);
  const abort = new AbortController();
  const ended = new AbortController();
  const work = (async () => await check({ ...context, timeout_ms, signal: abort.signal }))().catch((error: unknown) => [
    unexpected(error, settings),
  ]);
  const late = clock.sleep(timeout_ms, ended.signal).then(() => undefined);
  let found: Seen[] | undefined = await Promise.race([work, late]);
  if (found === undefined) {
    abort.abort();
    // A check may have several waits. A finding that arrives during cleanup is better than none.
    found = await Promise.race([work, clock.sleep(Math.min(GRACE_MS, timeout_ms), ended.signal).then(() => undefined)]);
    found ??= [problem(`no answer within ${shownTime(timeout_ms)}`, "a firewall may block it, or it is slow: --timeout 30s waits longer")];
  }
  ended.abort();
  return found.map((one) => ({ check: name, ...one }));
}

function unexpected(error: unknown, { database_url }: Settings): Seen {
  if (error instanceof Refusal) return problem(error.message, "see the message");
  return problem(
    `this check failed: ${said(error, secretsOf(database_url))}`,
    "the message may explain why; otherwise it is a bug of this program",
  );
}

/** Returns the database of the settings, else the embedded one if it is running. */
async function reachDatabase(
  { database_url, data_directory }: Settings,
  { clock, timeout_ms }: { clock: Clock; timeout_ms: number },
): Promise<Reached> {
  const address = database_url ?? (await runningDatabase(path.join(path.resolve(data_directory), "postgres")).catch(() => undefined));
  if (address === undefined) return { absent: "the embedded one is started by serve, and only checked while it is running" };
  const abort = new AbortController();
  const late = clock.setTimer(timeout_ms, () => abort.abort());
  try {
    return { address, seen: await probeDatabase(address, { clock, timeout_ms, signal: abort.signal }) };
  } catch (error) {
    return { failure: abort.signal.aborted ? new Error(`no answer within ${shownTime(timeout_ms)}`) : error };
  } finally {
    late.cancel();
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
