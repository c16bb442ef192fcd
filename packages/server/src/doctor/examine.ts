import path from "node:path";
import { type Clock, within } from "@roamfleet/clock";
import { createColors } from "picocolors";
import type { ServeFlags, Settings } from "../config.ts";
import { Refusal, runningDatabase } from "../engines/db/embedded/index.ts";
import { probeDatabase } from "../engines/db/index.ts";
import { adminTokenCheck, hostNamesCheck, proxiesCheck, settingsCheck } from "./checks/settings.ts";
import { artifactsCheck } from "./checks/artifacts.ts";
import { busCheck } from "./checks/bus.ts";
import { dataDirectoryCheck, embeddedCheck } from "./checks/data-directory.ts";
import { databaseCheck, migrationsCheck } from "./checks/database.ts";
import { listenCheck } from "./checks/listen.ts";
import { clockCheck, memoryCheck, nodeCheck, openFilesCheck } from "./checks/machine.ts";
import { metricsCheck } from "./checks/metrics.ts";
import { nodesCheck } from "./checks/nodes.ts";
import { packagesCheck } from "./checks/packages.ts";
import { secretsKeyCheck } from "./checks/secrets-key.ts";
import { tlsCheck } from "./checks/tls.ts";
import {
  type Check,
  type DoctorContext,
  type Finding,
  problem,
  type Reached,
  said,
  secretsOf,
  type Seen,
  shownTime,
  type Status,
} from "./finding.ts";
import { readAllSettings } from "./read-settings.ts";

/** All checks, in the order of the report. */
export const CHECKS: readonly Check[] = [
  settingsCheck,
  nodeCheck,
  clockCheck,
  openFilesCheck,
  memoryCheck,
  dataDirectoryCheck,
  listenCheck,
  tlsCheck,
  proxiesCheck,
  hostNamesCheck,
  adminTokenCheck,
  embeddedCheck,
  databaseCheck,
  migrationsCheck,
  secretsKeyCheck,
  artifactsCheck,
  busCheck,
  nodesCheck,
  packagesCheck,
  metricsCheck,
];

interface ExamineOptions {
  flags: ServeFlags;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  /** Time limit of each check. */
  timeout_ms: number;
  /** Checks to run. Default: all. */
  checks?: readonly Check[];
  /** Called with the findings of each check, in the order of the checks. */
  told?: (findings: readonly Finding[]) => void;
}

/** Maximum time for a check to clean up after its time limit. A check with a shorter time limit may clean up only as long as that limit. */
const GRACE_MS = 2_000;

/** Runs all checks concurrently and returns their findings in order. Never rejects. The checks remove everything that they create. */
export async function examine({ flags, env, clock, timeout_ms, checks = CHECKS, told }: ExamineOptions): Promise<Finding[]> {
  const { settings, wrong_parts, errors } = readAllSettings(flags, env);
  const reached = once(async () =>
    wrong_parts.has("database")
      ? { absent: "not checked: first fix the problem in settings" }
      : await reachDatabase(settings, { clock, timeout_ms }),
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

/** Runs one check with its time limit. If the check throws an error, returns the error as a problem. */
export async function runCheck({ name, check, timeout_ms_min = 0 }: Check, context: Omit<DoctorContext, "signal">): Promise<Finding[]> {
  const { clock, settings } = context;
  const timeout_ms = Math.max(context.timeout_ms, timeout_ms_min);
  const abort = new AbortController();
  const work = (async () => await check({ ...context, timeout_ms, signal: abort.signal }))().catch((error: unknown) => [
    unexpected(error, settings),
  ]);
  let found: Seen[] | undefined = await within(clock, timeout_ms, work);
  if (found === undefined) {
    abort.abort();
    // Waits for the check to clean up and return its findings, because partial findings are better than none.
    found = await within(clock, Math.min(GRACE_MS, timeout_ms), work);
    found ??= [
      problem(
        `no answer within ${shownTime(timeout_ms)}`,
        "a firewall may block the connection, or the service is slow: --timeout 30s waits longer",
      ),
    ];
  }
  return found.map((one) => ({ check: name, ...one }));
}

function unexpected(error: unknown, { database_url }: Settings): Seen {
  if (error instanceof Refusal) return problem(error.message, "see the message");
  return problem(
    `this check failed: ${said(error, secretsOf(database_url))}`,
    "the message may explain why; otherwise this is a bug in Roamfleet",
  );
}

/** Probes the configured database, or the embedded one if it is running. */
async function reachDatabase(
  { database_url, data_directory }: Settings,
  { clock, timeout_ms }: { clock: Clock; timeout_ms: number },
): Promise<Reached> {
  const address = database_url ?? (await runningDatabase(path.join(path.resolve(data_directory), "postgres")).catch(() => undefined));
  if (address === undefined) return { absent: "serve starts the embedded database; it is checked only while it runs" };
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

export interface Screen {
  colors: boolean;
  /** Width of the terminal in characters; undefined: do not break lines. */
  columns: number | undefined;
}

const SYMBOLS: Readonly<Record<Status, string>> = { ok: "✓", warning: "!", problem: "✗", skipped: "–" };
const NAME_WIDTH = Math.max(...CHECKS.map(({ name }) => name.length));
const TEXT_AT = NAME_WIDTH + 4;
const TEXT_COLUMNS_MIN = 30;

/** Formats the findings of one check. Its name is on the first line only. */
export function printFindings(findings: readonly Finding[], { colors, columns }: Screen): string {
  const paint = createColors(colors);
  const tones: Readonly<Record<Status, (text: string) => string>> = {
    ok: paint.green,
    warning: paint.yellow,
    problem: paint.red,
    skipped: paint.dim,
  };
  const room = columns === undefined ? Infinity : Math.max(TEXT_COLUMNS_MIN, columns - TEXT_AT);
  const lines = findings.flatMap(({ check, status, seen, hint }, at) => {
    const tone = tones[status];
    const name = at === 0 ? check : "";
    const [first = "", ...rest] = wrap(seen, room);
    const shown = [`${tone(SYMBOLS[status])} ${paint.bold(name.padEnd(NAME_WIDTH))}  ${status === "skipped" ? paint.dim(first) : first}`];
    shown.push(...rest.map((line) => `${" ".repeat(TEXT_AT)}${line}`));
    // The first line of the hint follows an arrow and a space. Further lines are aligned with it.
    const hints = hint === undefined ? [] : hint.split("\n").flatMap((line) => wrap(line, room - 2));
    shown.push(...hints.map((line, index) => `${" ".repeat(TEXT_AT)}${paint.cyan(`${index === 0 ? "→" : " "} ${line}`)}`));
    return shown;
  });
  return lines.map((line) => `${line.trimEnd()}\n`).join("");
}

export function countStatuses(findings: readonly Finding[]): { problems: number; warnings: number } {
  const count = (wanted: Status): number => findings.filter(({ status }) => status === wanted).length;
  return { problems: count("problem"), warnings: count("warning") };
}

/** Formats `2 problems, 1 warning`. */
export function summarize(findings: readonly Finding[]): string {
  const { problems, warnings } = countStatuses(findings);
  const parts = [
    ...(problems > 0 ? [`${problems} problem${problems === 1 ? "" : "s"}`] : []),
    ...(warnings > 0 ? [`${warnings} warning${warnings === 1 ? "" : "s"}`] : []),
  ];
  return parts.length === 0 ? "no problems found" : parts.join(", ");
}

/** Breaks text at spaces into lines of at most `columns` characters. A longer word gets a separate line. */
function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
