/** A time that passed the schema's `date-time`, as a Date; a leap second counts as the second after. */
export function parseTime(text: string): Date {
  const upper = text.toUpperCase().replace(" ", "T");
  const leap = upper.includes(":60", 16);
  const at = new Date(leap ? upper.replace(/:60(?=[.Z+-])/, ":59") : upper);
  return leap ? new Date(at.getTime() + 1_000) : at;
}

/** RFC 3339 in UTC with milliseconds, or null. */
export function wireTime(at: Date): string;
export function wireTime(at: Date | null): string | null;
export function wireTime(at: Date | null): string | null {
  return at === null ? null : at.toISOString();
}
