const LENGTHS: Record<string, number> = { s: 1, m: 60, min: 60, h: 3_600, d: 86_400 };
const SHORT = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
] as const;

/** Parses `90s`, `10m`, `2h`, `3d` to seconds, as `rf` does; undefined for other texts. */
export function readSeconds(text: string): number | undefined {
  const match = /^(\d{1,9})\s?(s|m|min|h|d)$/.exec(text.trim());
  return match === null ? undefined : Number(match[1]) * (LENGTHS[match[2] ?? ""] ?? 1);
}

/** Formats seconds for `rf` in the largest unit without remainder: 5,400 → `90m`. */
export function writeSeconds(seconds: number): string {
  for (const [unit, length] of SHORT) if (seconds >= length && seconds % length === 0) return `${seconds / length}${unit}`;
  return `${seconds}s`;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** Formats the time left: "9:05", "1:02:09", "3 d 4 h"; undefined once it has passed. */
export function countdownText(until: string, now_ms: number): string | undefined {
  const left = Math.ceil((Date.parse(until) - now_ms) / 1_000);
  if (!(left > 0)) return undefined;
  const [days, hours, minutes, seconds] = [Math.floor(left / 86_400), Math.floor(left / 3_600) % 24, Math.floor(left / 60) % 60, left % 60];
  if (days > 0) return hours === 0 ? `${days} d` : `${days} d ${hours} h`;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}
