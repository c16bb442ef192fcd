/** A config value as one reads it: a text as it is written in JSON, so that "1" is not 1. */
export const valueText = (value: unknown): string => JSON.stringify(value, null, typeof value === "object" ? 2 : undefined) ?? "—";
