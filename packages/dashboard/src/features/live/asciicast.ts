export interface CastEvent {
  /** Since the beginning, in seconds. */
  at: number;
  kind: "output" | "resize" | "mark";
  text: string;
}

export interface Cast {
  cols: number;
  rows: number;
  events: readonly CastEvent[];
  /** Of the whole, in seconds. */
  duration: number;
}

const KINDS: Record<string, CastEvent["kind"]> = { o: "output", r: "resize", m: "mark" };
const SIZE_MAX = 1_000;

/** Reads a recording as asciinema v2 has it. What is no event is left out: a recording that is being written may end in half a line. */
export function parseCast(text: string): Cast {
  const events: CastEvent[] = [];
  let [cols, rows, last] = [80, 24, 0];
  for (const [number, line] of text.split("\n").entries()) {
    const value = parsed(line);
    if (number === 0) {
      const header = (value ?? {}) as Record<string, unknown>;
      cols = sizeOf(header["width"]) ?? cols;
      rows = sizeOf(header["height"]) ?? rows;
      continue;
    }
    if (!Array.isArray(value)) continue;
    const [seconds, code, content] = value as unknown[];
    const kind = KINDS[String(code)];
    if (typeof seconds !== "number" || !Number.isFinite(seconds) || kind === undefined || typeof content !== "string") continue;
    // Times never go back, whoever wrote them.
    last = Math.max(last, seconds);
    events.push({ at: last, kind, text: content });
  }
  return { cols, rows, events, duration: last };
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

const sizeOf = (value: unknown): number | undefined =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= SIZE_MAX ? Number(value) : undefined;

/** "120x40" → its sizes; undefined for what is none. */
export function castSize(text: string): { cols: number; rows: number } | undefined {
  const [, width, height] = /^(\d+)x(\d+)$/.exec(text) ?? [];
  const [cols, rows] = [sizeOf(Number(width)), sizeOf(Number(height))];
  return cols === undefined || rows === undefined ? undefined : { cols, rows };
}

/** The same with no pause longer than `idle_max` seconds. */
export function shortenPauses(cast: Cast, idle_max: number | undefined): Cast {
  if (idle_max === undefined) return cast;
  let [before, at] = [0, 0];
  const events = cast.events.map((event) => {
    at += Math.min(event.at - before, idle_max);
    before = event.at;
    return { ...event, at };
  });
  return { ...cast, events, duration: at };
}

/** How many events are at `seconds` or before. */
export function countUntil(events: readonly CastEvent[], seconds: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle]!.at <= seconds) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** 3,725 → "1:02:05". */
export function clockText(seconds: number): string {
  const whole = Math.floor(Math.max(0, seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3_600), Math.floor((whole % 3_600) / 60), whole % 60];
  const two = (value: number): string => String(value).padStart(2, "0");
  return hours === 0 ? `${minutes}:${two(rest)}` : `${hours}:${two(minutes)}:${two(rest)}`;
}
