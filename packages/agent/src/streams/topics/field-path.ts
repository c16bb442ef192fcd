/** Names of fields and indices of arrays, from outer to inner. */
export type FieldPath = readonly (string | number)[];

const STEP = /^(?:\.?([A-Za-z_]\w*)|\[(\d{1,9})\])/;

/** Parses `a.b[0].c` to `["a", "b", 0, "c"]`; an empty text is the whole message; undefined for an invalid path. */
export function parseFieldPath(text: string): FieldPath | undefined {
  const path: (string | number)[] = [];
  if (text.startsWith(".")) return undefined;
  for (let rest = text; rest !== "";) {
    const [step, name, index] = STEP.exec(rest) ?? [];
    // Only the first name needs no dot.
    if (step === undefined || (name !== undefined && path.length > 0 && !step.startsWith("."))) return undefined;
    path.push(name ?? Number(index));
    rest = rest.slice(step.length);
  }
  return path;
}

export type Picked = { value: unknown } | { missing: string };

/** Returns the part of a message at a path. An index beyond the end of an array is null: the next message may be longer. */
export function pickField(message: unknown, path: FieldPath): Picked {
  let value = message;
  for (const [i, step] of path.entries()) {
    const so_far = textOf(path.slice(0, i + 1));
    if (typeof step === "number") {
      if (!Array.isArray(value) && !isTypedArray(value)) return { missing: `${so_far}: this is not an array` };
      value = value[step] ?? null;
      if (value === null) return { value };
    } else {
      if (typeof value !== "object" || value === null || Array.isArray(value) || isTypedArray(value))
        return { missing: `${so_far}: its parent is not an object` };
      if (!Object.hasOwn(value, step))
        return { missing: `${so_far}: there is ${Object.keys(value).slice(0, NAMES_MAX).join(", ") || "nothing"}` };
      value = (value as Record<string, unknown>)[step];
    }
  }
  return { value };
}

/** Maximum names in a reason. */
const NAMES_MAX = 8;

const textOf = (path: FieldPath): string =>
  path.map((step, i) => (typeof step === "number" ? `[${step}]` : (i > 0 ? "." : "") + step)).join("");

export const isTypedArray = (value: unknown): value is NodeJS.TypedArray => ArrayBuffer.isView(value) && !(value instanceof DataView);
