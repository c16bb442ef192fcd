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

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Formats a date and time in the browser's time zone. */
export const dateText = (at: string): string => DATE.format(new Date(at));
