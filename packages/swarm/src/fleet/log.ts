import { agentLog, type Logger } from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";

/** Interval at which the same message of another robot is shown again. */
const QUIET_MS = 10_000;
const LINES_REMEMBERED_MAX = 100;

/**
 * The combined log of all robots. When a server restarts, thousands of robots log the same reason: it is shown once per interval, or always
 * with `verbose`.
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
