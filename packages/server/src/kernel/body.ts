import type { TSchema } from "typebox";
import { badRequest, printable } from "./fault.ts";

export const BODY_BYTES_MAX = 1024 * 1024;
/** Limit for routes whose fields all have a limited size. A longer body has extra whitespace, or would be refused after parsing. */
export const BOUNDED_BODY_BYTES_MAX = 128 * 1024;
/** JSON.stringify overflows the stack at about 5,000 levels. No legitimate body needs more than this. */
export const BODY_DEPTH_MAX = 64;

/** Maximum fields of a body. A field takes some hundred bytes of memory while its request is processed. */
export const BODY_FIELDS_MAX = 20_000;
const BODY_CONTAINERS_MAX = 100_000;

/** Returns the size limit of a body with this schema: 1 MiB if a field takes any JSON or a longer text, else `BOUNDED_BODY_BYTES_MAX`. */
export function bodyBytesMax(schema: TSchema | undefined): number {
  return schema !== undefined && takesMuch(schema) ? BODY_BYTES_MAX : BOUNDED_BODY_BYTES_MAX;
}

function takesMuch(schema: TSchema): boolean {
  const node = schema as TSchema & {
    maxLength?: number;
    properties?: Record<string, TSchema>;
    patternProperties?: Record<string, TSchema>;
  };
  if (!["type", "anyOf", "enum", "const"].some((keyword) => keyword in node)) return true;
  if ((node.maxLength ?? 0) > BOUNDED_BODY_BYTES_MAX) return true;
  return [...Object.values(node.properties ?? {}), ...Object.values(node.patternProperties ?? {})].some(takesMuch);
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Parses a JSON body. Refuses text and numbers that the database cannot store (NUL, lone surrogates, non-finite numbers), `__proto__`, and
 * duplicate fields, which parsers interpret differently.
 */
export function parseBody(bytes: Buffer): unknown {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw badRequest("the body is not UTF-8");
  }
  const fields = countFields(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const at = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined;
    throw badRequest(`the body is not valid JSON${at === undefined ? "" : ` (at position ${at})`}`);
  }
  if (fields !== checkValue(value)) throw badRequest("the body has a duplicate field");
  return value;
}

const [QUOTE, BACKSLASH, COLON] = [0x22, 0x5c, 0x3a];
const [OPEN_LIST, OPEN_OBJECT, CLOSE_LIST, CLOSE_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d];

/**
 * Scans JSON text before it is parsed. Throws 400 if the parsed values would take much more memory than the text. Returns the number of
 * fields, duplicates included: every colon outside of a string follows a field name.
 */
function countFields(text: string): number {
  let [fields, containers, depth, in_string] = [0, 0, 0, false];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) in_string = !in_string;
    else if (in_string) at += code === BACKSLASH ? 1 : 0;
    else if (code === COLON) fields += 1;
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      containers += 1;
      if ((depth += 1) > BODY_DEPTH_MAX) throw badRequest(`the body is nested deeper than ${BODY_DEPTH_MAX} levels`);
    }
  }
  if (fields > BODY_FIELDS_MAX) throw badRequest(`the body has more than ${BODY_FIELDS_MAX} fields`);
  if (containers > BODY_CONTAINERS_MAX) throw badRequest(`the body has more than ${BODY_CONTAINERS_MAX} lists and objects`);
  return fields;
}

interface Part {
  value: object;
  /** The top-level field of the body that contains the value; undefined for the body itself. */
  field: string | undefined;
}

/** Checks every value and field name. Returns the number of fields in all objects. */
function checkValue(root: unknown): number {
  let fields = 0;
  const todo: Part[] = [];
  const check = (value: unknown, field: string | undefined): void => {
    if (typeof value === "string") {
      if (!isStorable(value)) checkText(value, placeOf(field));
    } else if (typeof value === "number") {
      if (!Number.isFinite(value)) throw badRequest(`${placeOf(field)} has a number that is too large`);
    } else if (typeof value === "object" && value !== null) todo.push({ value, field });
  };
  check(root, undefined);
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { value, field } = next;
    if (Array.isArray(value)) for (const item of value) check(item, field);
    else
      for (const [key, item] of Object.entries(value)) {
        if (key === "__proto__") throw badRequest(`${placeOf(field)} has a field __proto__`);
        checkText(key, "a field name");
        fields += 1;
        check(item, field ?? key);
      }
  }
  return fields;
}

const placeOf = (field: string | undefined): string => (field === undefined ? "the body" : `field ${printable(field)}`);
const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed();

/** Refuses text that PostgreSQL cannot store. */
export function checkText(text: string, where: string): void {
  if (text.includes("\0")) throw badRequest(`${where} contains a NUL character`);
  if (!text.isWellFormed()) throw badRequest(`${where} contains a lone surrogate`);
}
