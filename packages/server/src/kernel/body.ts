import { badRequest } from "./fault.ts";

export const BODY_BYTES_MAX = 1024 * 1024;
/** Deeper JSON overflows the stack of JSON.stringify at about 5,000 levels; nobody needs more than this. */
export const BODY_DEPTH_MAX = 64;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Parses a JSON body. Refuses what the database could not store: NUL, lone surrogates; and what is no data: `__proto__`. */
export function parseBody(bytes: Buffer): unknown {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw badRequest("the body is not UTF-8");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const at = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined;
    throw badRequest(`the body is not valid JSON${at === undefined ? "" : ` (at position ${at})`}`);
  }
  checkValue(value);
  return value;
}

function checkValue(root: unknown): void {
  const todo: { value: unknown; depth: number }[] = [{ value: root, depth: 1 }];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const { value, depth } = next;
    if (typeof value === "string") checkText(value, "the body");
    else if (typeof value === "object" && value !== null) {
      if (depth > BODY_DEPTH_MAX) throw badRequest(`the body is nested deeper than ${BODY_DEPTH_MAX} levels`);
      if (Array.isArray(value)) for (const item of value) todo.push({ value: item, depth: depth + 1 });
      else
        for (const [key, item] of Object.entries(value)) {
          if (key === "__proto__") throw badRequest("the body has a field __proto__");
          checkText(key, "a field name");
          todo.push({ value: item, depth: depth + 1 });
        }
    }
  }
}

/** PostgreSQL stores neither. */
export function checkText(text: string, where: string): void {
  if (text.includes("\0")) throw badRequest(`${where} contains a NUL character`);
  if (!text.isWellFormed()) throw badRequest(`${where} contains a lone surrogate`);
}
