import { jsonText } from "../../ui/json-text.ts";

/** A marker that occurs in no value. The line where it is inserted is the result. */
const MARK = "\u0001here\u0001";

/**
 * Returns the line (from 1) of the indented value that an error of the server is about, such as `value limits.speed must be <= 3
 * (schema of namespace nav)`; undefined if the error names no part of the value.
 */
export function wrongLine(value: unknown, key: string, message: string): number | undefined {
  const said = /^value (.+?) (?:must|is|should|does|has|contains|needs) /.exec(message)?.[1];
  if (said === undefined || !said.startsWith(`${key}.`)) return undefined;
  const marked = withMark(value, said.slice(key.length + 1));
  if (marked === undefined) return undefined;
  const at = jsonText(marked)
    .split("\n")
    .findIndex((line) => line.includes(JSON.stringify(MARK)));
  return at === -1 ? undefined : at + 1;
}

/** Replaces a part of the value with the marker. Keys may contain dots, so the longest existing key matches. */
function withMark(value: unknown, path: string): unknown {
  if (path === "") return MARK;
  if (typeof value !== "object" || value === null) return undefined;
  const parts = path.split(".");
  for (let taken = parts.length; taken > 0; taken -= 1) {
    const name = parts.slice(0, taken).join(".");
    if (!Object.hasOwn(value, name)) continue;
    const inner = withMark((value as Record<string, unknown>)[name], parts.slice(taken).join("."));
    if (inner === undefined) continue;
    if (Array.isArray(value)) return value.map((item: unknown, at) => (String(at) === name ? inner : item));
    return Object.fromEntries(Object.entries(value).map(([each, part]) => [each, each === name ? inner : part]));
  }
  return undefined;
}
