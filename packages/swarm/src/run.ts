import { StateLockedError } from "@roamfleet/agent";
import { agentLog, EnrollmentRefused, type Logger, UsageError } from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";
import { UntrustedAuthority } from "@roamfleet/protocol/authority";
import { EnrollmentError } from "./enrollment.ts";
import { Fleet } from "./fleet.ts";
import { readFleetOptions, type SwarmFlags } from "./options.ts";
import { Progress, type Screen } from "./progress.ts";

const EXIT = { ok: 0, error: 1, usage: 2, auth: 4, conflict: 6 } as const;

export interface RunOptions {
  flags: SwarmFlags;
  clock: Clock;
  screen: Screen;
  /** Called with each error message. */
  complain: (line: string) => void;
  /** Shuts the swarm down. */
  signal: AbortSignal;
}

/** Implements `roamfleet swarm`: runs robots until the signal and returns the exit code. Throws only for unexpected errors. */
export async function runSwarm({ flags, clock, screen, complain, signal }: RunOptions): Promise<number> {
  let fleet: Fleet | undefined;
  let progress: Progress | undefined;
  try {
    const options = readFleetOptions(flags);
    const say = (line: string): void => (progress === undefined ? complain(line) : progress.say(line));
    const waiting = onceEach((reason, wait_ms) => say(`waiting for the server: ${reason} (next try in ${(wait_ms / 1_000).toFixed(1)} s)`));
    fleet = new Fleet(options, { clock, log: swarmLog(say, options.verbose, clock), signal, waiting });
    progress = new Progress(fleet, options.robots, screen, clock);
    progress.say(`${options.robots} robots, ${options.name_prefix}-…, seed ${options.seed}; Ctrl-C ends them`);
    await fleet.start();
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    return EXIT.ok;
  } catch (error) {
    if (signal.aborted) return EXIT.ok;
    const code = exitCodeOf(error);
    if (code === undefined) throw error;
    complain(error instanceof Error ? explain(error) : String(error));
    return code;
  } finally {
    progress?.stop();
    await fleet?.stop();
  }
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof UsageError) return EXIT.usage;
  if (error instanceof EnrollmentRefused || error instanceof UntrustedAuthority) return EXIT.auth;
  if (error instanceof StateLockedError) return EXIT.conflict;
  if (error instanceof EnrollmentError) return EXIT.error;
  return undefined;
}

function explain(error: Error): string {
  if (error instanceof StateLockedError) return `these robots are already running: ${error.message}\nUse another --seed for other robots.`;
  return /\bexhausted\b/.test(error.message)
    ? `${error.message}\nA key enrolls 100 robots by default: create one without a limit with \`rf keys new --max-uses 0\`.`
    : error.message;
}

/** Wraps `say` to drop consecutive repetitions of a message. */
function onceEach(say: (reason: string, wait_ms: number) => void): (reason: string, wait_ms: number) => void {
  let last = "";
  return (reason, wait_ms) => {
    if (reason === last) return;
    last = reason;
    say(reason, wait_ms);
  };
}

/** Minimum interval between equal log messages. Different robots may send the same message. */
const QUIET_MS = 10_000;
const LINES_REMEMBERED_MAX = 100;

/**
 * Creates the combined log of all robots. When a server restarts, thousands of robots log the same reason. The log prints it once per
 * interval, or with `verbose` always.
 */
export function swarmLog(say: (line: string) => void, verbose: boolean, clock: Clock): Logger {
  const said = new Map<string, number>();
  const write = ({ message, fields = {} }: { message: string; fields?: Record<string, unknown> }): void => {
    const why = fields["reason"] ?? fields["err"];
    const line = why === undefined ? message : `${message}: ${typeof why === "string" ? why : JSON.stringify(why)}`;
    const now = clock.monotonic();
    if (!verbose && now - (said.get(line) ?? -Infinity) < QUIET_MS) return;
    if (said.size >= LINES_REMEMBERED_MAX) said.clear();
    said.set(line, now);
    say(line);
  };
  return agentLog({ level: "warn", now: () => clock.now(), print: () => {}, sink: { write } }).log;
}
