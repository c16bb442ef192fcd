import type { TSchema } from "typebox";
import { badRequest, printable } from "./fault.ts";

export const BODY_BYTES_MAX = 1024 * 1024;
/** Of a route whose fields are all bounded: more can only be spaces, or refused when it is parsed. */
export const BOUNDED_BODY_BYTES_MAX = 128 * 1024;
/** Deeper JSON overflows the stack of JSON.stringify at about 5,000 levels; nobody needs more than this. */
export const BODY_DEPTH_MAX = 64;

/** A field takes some hundred bytes of memory, as long as its request lasts. */
export const BODY_FIELDS_MAX = 20_000;
const BODY_CONTAINERS_MAX = 100_000;

/** How many bytes a body of this schema may have: a mebibyte only where a field takes any JSON. */
export function bodyBytesMax(schema: TSchema | undefined): number {
  return schema !== undefined && takesAnything(schema) ? BODY_BYTES_MAX : BOUNDED_BODY_BYTES_MAX;
}

function takesAnything(schema: TSchema): boolean {
  const node = schema as TSchema & { properties?: Record<string, TSchema>; patternProperties?: Record<string, TSchema> };
  if (!["type", "anyOf", "enum", "const"].some((keyword) => keyword in node)) return true;
  return [...Object.values(node.properties ?? {}), ...Object.values(node.patternProperties ?? {})].some(takesAnything);
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Parses a JSON body. Refuses what the database could not store (NUL, lone surrogates, numbers that are none), what is no
 * data (`__proto__`), and what two readers would understand as two things: a field that is there twice.
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
  if (fields !== checkValue(value)) throw badRequest("the body names a field twice");
  return value;
}

const [QUOTE, BACKSLASH, COLON] = [0x22, 0x5c, 0x3a];
const [OPEN_LIST, OPEN_OBJECT, CLOSE_LIST, CLOSE_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d];

/**
 * Looks at text that may be JSON, and refuses what would take much more memory as values than as text. Answers how many
 * fields it names, each as often as it does: a colon outside of strings stands behind every name.
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
  /** Name of the field of the body that it belongs to; undefined for the body itself. */
  field: string | undefined;
}

/** Checks every value and name; answers how many fields there are in all objects. */
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

/** PostgreSQL stores neither. */
export function checkText(text: string, where: string): void {
  if (text.includes("\0")) throw badRequest(`${where} contains a NUL character`);
  if (!text.isWellFormed()) throw badRequest(`${where} contains a lone surrogate`);
}
