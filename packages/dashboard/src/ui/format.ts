const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Formats bytes in decimal units: 1,234,567 → "1.2 MB". */
export function byteText(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Formats seconds in the two largest units: 3,725 → "1 h 2 min". */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return pair(Math.floor(whole / 3_600), "h", Math.floor((whole % 3_600) / 60), "min");
  return pair(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3_600), "h");
}

const pair = (large: number, large_unit: string, small: number, small_unit: string): string =>
  small === 0 ? `${large} ${large_unit}` : `${large} ${large_unit} ${small} ${small_unit}`;

/** Formats a time relative to now: "just now", "5 min ago", "in 3 h". Returns the date for times more than 30 days away. */
export function relativeText(at: string, now_ms: number): string {
  const seconds = (Date.parse(at) - now_ms) / 1_000;
  const away = Math.abs(seconds);
  if (away < 10) return "just now";
  if (away > 30 * 86_400) return dateText(at);
  // Values that would round up to the next unit use that unit: "1 min", never "60 s".
  const text =
    away < 55
      ? `${Math.round(away / 10) * 10} s`
      : away < 59.5 * 60
        ? `${Math.round(away / 60)} min`
        : away < 23.5 * 3_600
          ? `${Math.round(away / 3_600)} h`
          : `${Math.round(away / 86_400)} d`;
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

/** Formats a number of things: "1 robot", "1,200 robots". */
export const counted = (count: number, thing: string): string => `${count.toLocaleString()} ${plural(count, thing)}`;

/** Returns the noun for a number that is shown separately: "robot" for 1, otherwise "robots". */
export const plural = (count: number, thing: string): string => `${thing}${count === 1 ? "" : "s"}`;

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Formats a date and time in the browser's time zone. */
export const dateText = (at: string): string => DATE.format(new Date(at));

/** Replaces each UTC time in a message of the server by the time in the time zone of the browser. */
export const withLocalTimes = (text: string): string =>
  text.replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b/g, (at) => dateText(at));

/** Converts a time to the value of a datetime-local input: local time without a zone; empty for anything else. */
export function toLocalInput(at: string | undefined): string {
  const at_ms = Date.parse(at ?? "");
  if (Number.isNaN(at_ms)) return "";
  return new Date(at_ms - new Date(at_ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Converts the value of a datetime-local input to RFC 3339; undefined if empty. */
export function fromLocalInput(value: string): string | undefined {
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

/** The parsed value of a text, or why it is not JSON, with the line and column of the error. */
type JsonText = { value: unknown } | { problem: string };

/** Parses a JSON text. Refuses numbers that JavaScript cannot represent, such as 1e999, which would be sent as null. */
export function readJson(text: string): JsonText {
  if (text.trim() === "") return { problem: "Enter a JSON value." };
  let value: unknown;
  try {
    value = JSON.parse(text, (_, part: unknown) => {
      if (typeof part === "number" && !Number.isFinite(part)) throw new RangeError("A number is too large.");
      return part;
    });
  } catch (error) {
    return { problem: problemOf(error, text) };
  }
  return { value };
}

function problemOf(error: unknown, text: string): string {
  if (error instanceof RangeError) return error.message;
  const message = error instanceof Error ? error.message : String(error);
  const position = /at position (\d+)/.exec(message)?.[1];
  const at = position === undefined ? text.length : Number(position);
  const before = text.slice(0, at).split("\n");
  return `Invalid JSON: line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

/** Formats a value as indented JSON for reading and editing. */
export const jsonText = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";

const PLAIN = /^[\w@%+=:,./-]+$/;

/** Quotes any text as one shell word. */
export const shellWord = (text: string): string => (PLAIN.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Flags by name: left out if undefined or false, without a value if true, repeated for a list. */
export type Flags = Record<string, string | number | boolean | undefined | readonly string[]>;

const flagWords = (flags: Flags): string[] =>
  Object.entries(flags).flatMap(([name, value]) => {
    if (value === undefined || value === false) return [];
    return value === true ? [`--${name}`] : [value].flat().flatMap((one) => [`--${name}`, String(one)]);
  });

/** Joins words and flags to a shell command, with quotes where necessary. */
export const shellLine = (...words: (string | false | undefined | Flags)[]): string =>
  words
    .flatMap((word) => (typeof word === "object" ? flagWords(word) : word === false || word === undefined ? [] : [word]))
    .map(shellWord)
    .join(" ");

/** Formats a message of the server as a sentence, but does not change an identifier at its start. Returns `otherwise` for an empty message. */
export function sentence(message: string, otherwise = ""): string {
  const text = message.trim();
  if (text === "") return otherwise;
  const begun = /^[a-z]+(?=[\s,:.']|$)/.test(text) ? `${text[0]!.toUpperCase()}${text.slice(1)}` : text;
  return `${begun}${/[.!?]$/.test(text) ? "" : "."}`;
}
