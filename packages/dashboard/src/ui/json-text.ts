/** What a text says as JSON, or why it is none: in words, with the line and column where it stops being it. */
export type JsonText = { value: unknown } | { problem: string };

/** The value of a JSON text. Texts that would be sent as something else than they say, such as 1e999, are none. */
export function readJson(text: string): JsonText {
  if (text.trim() === "") return { problem: "Nothing is written here yet." };
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
  return `Not JSON: line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

/** A value as people read and edit it. */
export const jsonText = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";
