/** Parses a time that the schema's `date-time` accepted. A leap second becomes the following second. */
export function parseTime(text: string): Date {
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
