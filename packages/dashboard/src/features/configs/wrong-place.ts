import { jsonText } from "../../ui/json-text.ts";

/** What stands nowhere in a value: the line where it is put is the line that is looked for. */
const MARK = "\u0001here\u0001";

/**
 * Line (from 1) of a value, written out with indentation, that a refusal of the server is about: `value limits.speed must be
 * <= 3 (schema of namespace nav)`. undefined when it names no part of the value.
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

/** The value with a mark in the place of a part; names may have dots in them, so the longest one that is there counts. */
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
