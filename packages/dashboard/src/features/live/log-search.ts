import { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import { shellWord } from "../../ui/shell-text.ts";

export type Level = (typeof LOG_LEVELS)[number];

/** The URL parameters: filters and display options. Times are RFC 3339 or a duration before now, such as `2h`. */
export interface LogSearch {
  level?: Level;
  source?: string;
  q?: string;
  since?: string;
  until?: string;
  /** In a fleet's log: only this robot. */
  robot_id?: string;
  wrap?: true;
}

const TEXT_CHARACTERS_MAX = 200;
const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Parses the URL parameters and ignores invalid ones. */
export function readLogSearch(search: Record<string, unknown>): LogSearch {
  const found: LogSearch = {};
  const level = LOG_LEVELS.find((one) => one === search["level"]);
  if (level !== undefined) found.level = level;
  for (const name of ["source", "q", "robot_id"] as const) {
    const text = textOf(search[name]);
    if (text !== undefined) found[name] = text;
  }
  for (const name of ["since", "until"] as const) {
    const text = textOf(search[name]);
    if (text !== undefined && timeOf(text, 0) !== undefined) found[name] = text;
  }
  if (search["wrap"] === true) found.wrap = true;
  return found;
}

/** Accepts numbers, too: the router parses `?q=404` as a number. */
function textOf(value: unknown): string | undefined {
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  const text = String(value);
  return text === "" || text.length > TEXT_CHARACTERS_MAX ? undefined : text;
}

/** Converts a time or duration to RFC 3339; undefined if invalid. */
export function timeOf(text: string, now_ms: number): string | undefined {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return new Date(now_ms - Number(count) * UNITS[unit as keyof typeof UNITS]).toISOString();
  const at = Date.parse(text);
  return /^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(at) ? new Date(at).toISOString() : undefined;
}

export interface LogFilter {
  level?: Level;
  source?: string;
  q?: string;
  since?: string;
  until?: string;
}

/** Converts the filters for the API. */
export function filterOf({ level, source, q, since, until }: LogSearch, now_ms: number): LogFilter {
  const times = {
    since: since === undefined ? undefined : timeOf(since, now_ms),
    until: until === undefined ? undefined : timeOf(until, now_ms),
  };
  return JSON.parse(JSON.stringify({ level, source, q, ...times })) as LogFilter;
}

/** Returns the equivalent `rf` command. It follows the log if there is no end time. */
export function logCommand(of: "robots" | "fleets", id: string, { level, source, q, since, until }: LogSearch): string {
  const flags = Object.entries({ level, source, grep: q, since, until }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name} ${shellWord(value)}`],
  );
  return ["rf", of, "logs", id, ...flags, ...(until === undefined ? ["--follow"] : [])].join(" ");
}
