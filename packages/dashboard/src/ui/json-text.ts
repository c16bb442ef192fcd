/** The parsed value of a text, or why it is not JSON, with the line and column of the error. */
export type JsonText = { value: unknown } | { problem: string };

/** Parses a JSON text. Refuses numbers that JavaScript cannot represent, such as 1e999, which would be sent as null. */
export function readJson(text: string): JsonText {
  if (text.trim() === "") return { problem: "Enter a JSON value." };
  let value: unknown;
  try {
    value = JSON.parse(text, (_, part: unknown) => {
      if (typeof part === "number" && !Number.isFinite(part)) throw new RangeError("A number is too large.");
      return part;
    });
  } catch (error) {
    return { problem: problemOf(error, text) };
  }
  return { value };
}

function problemOf(error: unknown, text: string): string {
  if (error instanceof RangeError) return error.message;
  const message = error instanceof Error ? error.message : String(error);
  const position = /at position (\d+)/.exec(message)?.[1];
  const at = position === undefined ? text.length : Number(position);
  const before = text.slice(0, at).split("\n");
  return `Invalid JSON: line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

/** Formats a value as indented JSON for reading and editing. */
export const jsonText = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";
