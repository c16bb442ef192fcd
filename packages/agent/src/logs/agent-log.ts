import { type Logger, pino } from "pino";
import { LOG_LEVELS, type LogLevel } from "@roamfleet/protocol/link";
import type { LogSink } from "../contract.ts";

/** Marks log entries that stay on the robot. They are about sending logs to the server, so sending them would create further entries. */
const LOCAL = { local: true };
const SOURCE = "agent";
const OWN_FIELDS = new Set(["level", "time", "msg", "local"]);

interface AgentLogOptions {
  level: string;
  now: () => Date;
  /** Receives each line for people, including its newline, for example to print it on stderr. */
  print: (line: string) => void;
  sink: LogSink;
}

/**
 * Creates the agent's own log. `log` prints lines for people, and also writes records of the source `agent` for the server. `local` only
 * prints: the code that sends the records to the server uses it.
 */
export function agentLog({ level, now, print, sink }: AgentLogOptions): { log: Logger; local: Logger } {
  const write = (line: string): void => {
    const entry = JSON.parse(line) as Record<string, unknown>;
    const name = levelName(entry.level);
    const at = new Date(Number(entry.time));
    const message = typeof entry.msg === "string" ? entry.msg : "";
    const fields = Object.fromEntries(Object.entries(entry).filter(([key]) => !OWN_FIELDS.has(key)));
    print(`${at.toISOString()} ${name.padEnd(5)} ${oneLine(message)}${humanFields(fields)}\n`);
    if (entry.local !== true) sink.write({ level: name, source: SOURCE, message, fields, at });
  };
  const log = pino({ level, base: null, timestamp: () => `,"time":${now().getTime()}` }, { write });
  return { log, local: log.child(LOCAL) };
}

function levelName(level: unknown): LogLevel {
  const name = pino.levels.labels[Number(level)];
  return LOG_LEVELS.find((one) => one === name) ?? "info";
}

function humanFields(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .map(([key, value]) => ` ${key}=${oneLine(typeof value === "string" ? value : JSON.stringify(value))}`)
    .join("");
}

/** Escapes control characters, so that a value from outside cannot add lines or send commands to a terminal. */
const oneLine = (text: string): string =>
  text.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
