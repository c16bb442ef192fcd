export interface CastEvent {
  /** Time of the event, in seconds since the start of the recording. */
  at: number;
  kind: "output" | "resize" | "mark";
  text: string;
}

export interface Cast {
  cols: number;
  rows: number;
  events: readonly CastEvent[];
  /** Duration of the recording in seconds. */
  duration: number;
}

const KINDS: Record<string, CastEvent["kind"]> = { o: "output", r: "resize", m: "mark" };
/**
 * Maximum size of the terminal, larger than any real screen. It bounds the cost of control sequences: three characters may rewrite every
 * cell.
 */
const [COLS_MAX, ROWS_MAX] = [600, 300];
/** Maximum characters of a line; longer lines are skipped. The server records lines of at most 1.1 MB. */
const LINE_MAX = 2 * 1024 * 1024;
const EVENTS_MAX = 1_000_000;
/** Longer pauses are shortened to this many seconds. */
const PAUSE_MAX_S = 24 * 60 * 60;
/** Maximum time of parsing before yielding to the event loop. */
const BUSY_MS = 10;

/**
 * Parses a recording in asciinema v2 format without blocking the page. Skips invalid lines: a recording in progress may end with an
 * incomplete line.
 */
export async function parseCast(text: string): Promise<Cast> {
  const events: CastEvent[] = [];
  let [cols, rows, before, at] = [80, 24, 0, 0];
  let paused_ms = performance.now();
  for (let from = 0; from < text.length && events.length < EVENTS_MAX;) {
    const found = text.indexOf("\n", from);
    const to = found === -1 ? text.length : found;
    if (from === 0) {
      const header = (parsed(text, 0, to, "{") ?? {}) as Record<string, unknown>;
      cols = sizeOf(header["width"], COLS_MAX) ?? cols;
      rows = sizeOf(header["height"], ROWS_MAX) ?? rows;
    } else {
      const event = eventOf(parsed(text, from, to, "["));
      if (event !== undefined) {
        // Ignore steps backward, so that times never decrease.
        at += Math.min(PAUSE_MAX_S, Math.max(0, event.at - before));
        before = Math.max(before, event.at);
        events.push({ ...event, at });
      }
    }
    from = to + 1;
    if (performance.now() - paused_ms < BUSY_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    paused_ms = performance.now();
  }
  return { cols, rows, events, duration: at };
}

/** Returns the event with its original time; undefined for other values. */
function eventOf(value: unknown): CastEvent | undefined {
  if (!Array.isArray(value)) return undefined;
  const [seconds, code, content] = value as unknown[];
  const kind = KINDS[String(code)];
  if (typeof seconds !== "number" || !Number.isFinite(seconds) || kind === undefined || typeof content !== "string") return undefined;
  return { at: seconds, kind, text: content };
}

function parsed(text: string, from: number, to: number, start: string): unknown {
  // Do not parse lines that are clearly not JSON: with millions of such lines, an exception for each would be too slow.
  if (text[from] !== start || to - from > LINE_MAX) return undefined;
  try {
    return JSON.parse(text.slice(from, to));
  } catch {
    return undefined;
  }
}

const sizeOf = (value: unknown, most: number): number | undefined =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most ? Number(value) : undefined;

/** Parses a size such as "120x40"; undefined for other texts. */
export function castSize(text: string): { cols: number; rows: number } | undefined {
  const [, width, height] = /^(\d+)x(\d+)$/.exec(text) ?? [];
  const [cols, rows] = [sizeOf(Number(width), COLS_MAX), sizeOf(Number(height), ROWS_MAX)];
  return cols === undefined || rows === undefined ? undefined : { cols, rows };
}

/** Returns the recording with all pauses limited to `idle_max` seconds. */
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

/** Counts the events at `seconds` or earlier. */
export function countUntil(events: readonly CastEvent[], seconds: number): number {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle]!.at <= seconds) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A recording below this duration is timed in tenths: in whole seconds, its clock would hardly move. */
const TENTHS_BELOW_S = 10;

/** Formats a position in a recording of `duration` seconds: 3,725 → "1:02:05"; in a short recording 0.38 → "0:00.3". */
export function clockText(seconds: number, duration: number): string {
  if (duration < TENTHS_BELOW_S) return `0:0${(Math.floor(Math.max(0, seconds) * 10) / 10).toFixed(1)}`;
  const whole = Math.floor(Math.max(0, seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3_600), Math.floor((whole % 3_600) / 60), whole % 60];
  const two = (value: number): string => String(value).padStart(2, "0");
  return hours === 0 ? `${minutes}:${two(rest)}` : `${hours}:${two(minutes)}:${two(rest)}`;
}
