import { readFile } from "node:fs/promises";
import { usage } from "./failure.ts";
import { readStdin } from "./secret.ts";

const FIELD_BYTES_MAX = 1_048_576;

/** Parses a text as JSON, or returns the text if it is not JSON. */
export function parseValue(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return text;
  }
  // 1e999 is valid JSON, but would be sent as null.
  if (typeof value === "number" && !Number.isFinite(value))
    throw usage(`${text} is too large for a number`, `To pass a string, write '"${text}"'.`);
  return value;
}

/** Builds a JSON object from `key=value`, `key[sub]=value` and `key[]=value`, as `gh api` does. */
export async function fieldsToObject(fields: readonly { text: string; typed: boolean }[]): Promise<Record<string, unknown>> {
  const root: Record<string, unknown> = {};
  for (const { text, typed } of fields) {
    const at = text.indexOf("=");
    if (at < 1) throw usage(`"${text}" is not a field: use key=value`);
    const path = fieldPath(text.slice(0, at));
    place(root, path, typed ? await typedValue(text.slice(at + 1)) : text.slice(at + 1), text);
  }
  return root;
}

async function typedValue(text: string): Promise<unknown> {
  if (!text.startsWith("@")) return parseValue(text);
  return (text === "@-" ? await readStdin(FIELD_BYTES_MAX) : await readFile(text.slice(1))).toString();
}

/** Parses the names in a field's path; an empty name appends to an array. */
function fieldPath(name: string): string[] {
  const match = /^([^[\]]+)((?:\[[^[\]]*\])*)$/.exec(name);
  if (match === null) throw usage(`"${name}" is not a field name: use key, key[sub] or key[]`);
  return [match[1]!, ...[...match[2]!.matchAll(/\[([^[\]]*)\]/g)].map(([, part]) => part!)];
}

function place(root: Record<string, unknown>, path: readonly string[], value: unknown, text: string): void {
  let at: Record<string, unknown> | unknown[] = root;
  for (const [depth, name] of path.entries()) {
    const last = depth === path.length - 1;
    const child: unknown = last ? value : path[depth + 1] === "" ? [] : {};
    if (Array.isArray(at) !== (name === "")) throw usage(`"${text}" conflicts with an earlier field`);
    const before: unknown = Array.isArray(at) ? undefined : Object.hasOwn(at, name) ? at[name] : undefined;
    const next: unknown = last || before === undefined ? child : before;
    if (Array.isArray(at)) at.push(next);
    else Object.defineProperty(at, name, { value: next, enumerable: true, writable: true, configurable: true });
    if (last) return;
    if (typeof next !== "object" || next === null) throw usage(`"${text}" conflicts with an earlier field`);
    at = next as Record<string, unknown> | unknown[];
  }
}
