/** Formats a config value as JSON, so that the string "1" differs from the number 1. */
export const valueText = (value: unknown): string => JSON.stringify(value, null, typeof value === "object" ? 2 : undefined) ?? "—";
