/** Parses a time that the schema's `date-time` accepted. A leap second becomes the following second. Undefined stays undefined. */
export function parseTime(text: string): Date;
export function parseTime(text: string | undefined): Date | undefined;
export function parseTime(text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const upper = text.toUpperCase().replace(" ", "T");
  const leap = upper.includes(":60", 16);
  const at = new Date(leap ? upper.replace(/:60(?=[.Z+-])/, ":59") : upper);
  return leap ? new Date(at.getTime() + 1_000) : at;
}

/** Formats a time as RFC 3339 in UTC with milliseconds; null stays null. */
export function wireTime(at: Date): string;
export function wireTime(at: Date | null): string | null;
export function wireTime(at: Date | null): string | null {
  return at === null ? null : at.toISOString();
}

/** A row with its times as text. */
export type WireTimes<T> = { [K in keyof T]: T[K] extends Date ? string : T[K] extends Date | null ? string | null : T[K] };

/** Returns a copy of a row in which all times are formatted by `wireTime`. */
export function wireTimes<T extends object>(row: T): WireTimes<T> {
  const wired = { ...row } as Record<string, unknown>;
  for (const name in wired) {
    const value = wired[name];
    if (value instanceof Date) wired[name] = wireTime(value);
  }
  return wired as WireTimes<T>;
}

/** Returns a query with its times parsed. */
export const parseTimes = <Q extends { since?: string; until?: string }>(query: Q) => ({
  ...query,
  since: parseTime(query.since),
  until: parseTime(query.until),
});
