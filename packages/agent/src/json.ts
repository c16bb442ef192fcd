/** Functions that read values of unknown shape, such as files, messages and responses. */

/** Returns the value as an object; an empty object if the value is not an object. */
export const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** Returns the value as an array; an empty array if the value is not an array. */
export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/**
 * Returns the strings in an array, without its other items; an empty array if the value is not an
 * array.
 */
export const textsOf = (value: unknown): string[] => listOf(value).filter((one) => typeof one === "string");

/**
 * Parses the JSON text of an object; returns undefined for invalid JSON and for any other value.
 */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
