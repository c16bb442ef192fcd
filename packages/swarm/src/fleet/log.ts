import { agentLog, type Logger } from "@robofleet/agent/parts";
import type { Clock } from "@robofleet/clock";

/**
 * The log of all robots together. Thousands lose their links when a server restarts and say why: each reason is shown once in a
 * row, or with `verbose` each time.
 */
export function swarmLog(say: (line: string) => void, verbose: boolean, clock: Clock): Logger {
  let last = "";
  const write = ({ message, fields = {} }: { message: string; fields?: Record<string, unknown> }): void => {
    const why = fields["reason"] ?? fields["err"];
    const line = why === undefined ? message : `${message}: ${typeof why === "string" ? why : JSON.stringify(why)}`;
    if (line === last && !verbose) return;
    last = line;
    say(line);
  };
  return agentLog({ level: "warn", now: () => clock.now(), print: () => {}, sink: { write } }).log;
}
