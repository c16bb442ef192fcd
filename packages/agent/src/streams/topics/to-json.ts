import { Buffer } from "node:buffer";
import { UndecodedMessage } from "../../ros/adapter.ts";

/** Maximum length of an array that a summary shows completely. It shows the 36 numbers of a covariance, but not a laser scan. */
export const SUMMARY_ARRAY_MAX = 64;
/** Number of items that a summary shows of a longer array. */
const SUMMARY_ARRAY_FIRST = 8;
export const SUMMARY_TEXT_MAX = 1_024;
const SUMMARY_TEXT_FIRST = 256;
/** Maximum number of values in a summary. Of further arrays, it shows only the length. */
const SUMMARY_VALUES_MAX = 4_000;
/** Maximum bytes of all strings in a summary. Of further strings, it shows only the length. */
export const SUMMARY_TEXT_BYTES_MAX = 128 * 1024;
/** Maximum bytes of a message in full as JSON. A larger message is summarized. Up to two messages may wait for a viewer. */
export const FULL_BYTES_MAX = 512 * 1024;
const DEPTH_MAX = 64;
/** Note for a message that was requested in full but is too large, so it is summarized. */
export const SUMMARIZED = `more than ${FULL_BYTES_MAX} bytes: summarized`;

interface Shown {
  message: unknown;
  /** Why the message is not shown as requested. */
  note?: string;
}

/**
 * Converts a decoded message to JSON values. 64-bit integers are numbers while they are exact, strings beyond; NaN and infinities are the strings
 * "NaN", "Infinity" and "-Infinity". Without `full`, long arrays and strings become `{ length, first }`; with it, long byte arrays become `{ length,
 * base64 }`.
 */
export function showMessage(message: unknown, full: boolean): Shown {
  if (full) {
    try {
      return { message: new Full().show(message, 0) };
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      return { message: new Summary().show(message, 0), note: SUMMARIZED };
    }
  }
  return { message: new Summary().show(message, 0) };
}

class TooLarge extends Error {}

abstract class Shape {
  show(value: unknown, depth: number): unknown {
    switch (typeof value) {
      case "number":
        this.count(NUMBER_BYTES);
        return Number.isFinite(value) ? value : String(value);
      case "bigint":
        this.count(NUMBER_BYTES);
        return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : String(value);
      case "string":
        return this.text(value);
      case "boolean":
        this.count(NUMBER_BYTES);
        return value;
      case "object":
        return value === null || depth > DEPTH_MAX ? null : this.#object(value, depth);
      default:
        return null;
    }
  }

  #object(value: object, depth: number): unknown {
    if (value instanceof UndecodedMessage) return { undecoded: value.reason, ...this.bytes(value.bytes) };
    if (value instanceof Uint8Array && value.length > SUMMARY_ARRAY_MAX) return this.bytes(value);
    if (Array.isArray(value)) return this.array(value, depth);
    if (isTypedArray(value)) return this.array(value, depth);
    const shown: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(value)) {
      this.count(name.length + NAME_BYTES);
      // Use defineProperty, since assigning to `__proto__` would set the prototype instead of creating a field.
      Object.defineProperty(shown, name, { value: this.show(field, depth + 1), enumerable: true });
    }
    return shown;
  }

  protected items(array: ArrayLike<unknown>, count: number, depth: number): unknown[] {
    const shown: unknown[] = [];
    for (let i = 0; i < count; i += 1) shown.push(this.show(array[i], depth + 1));
    return shown;
  }

  /** Called for each added part of the JSON with its approximate size in bytes. */
  protected abstract count(bytes: number): void;
  protected abstract text(value: string): unknown;
  protected abstract array(value: ArrayLike<unknown>, depth: number): unknown;
  protected abstract bytes(value: Uint8Array): { length: number };
}

/** Minimum bytes of a number as JSON. NAME_BYTES: the quotes, colon and comma of a field's name. */
const NUMBER_BYTES = 2;
const NAME_BYTES = 4;

class Summary extends Shape {
  #values = 0;
  #text_bytes = 0;

  protected count(): void {
    this.#values += 1;
  }

  protected text(value: string): unknown {
    this.count();
    const first = value.length <= SUMMARY_TEXT_MAX ? value : value.slice(0, SUMMARY_TEXT_FIRST);
    const bytes = Buffer.byteLength(first);
    if (this.#text_bytes + bytes > SUMMARY_TEXT_BYTES_MAX) return { length: value.length, first: "" };
    this.#text_bytes += bytes;
    return value.length <= SUMMARY_TEXT_MAX ? value : { length: value.length, first };
  }

  protected array(value: ArrayLike<unknown>, depth: number): unknown {
    if (this.#values >= SUMMARY_VALUES_MAX && value.length > 0) return { length: value.length, first: [] };
    if (value.length <= SUMMARY_ARRAY_MAX) return this.items(value, value.length, depth);
    return { length: value.length, first: this.items(value, SUMMARY_ARRAY_FIRST, depth) };
  }

  protected bytes(value: Uint8Array): { length: number; first: number[] } {
    return { length: value.length, first: Array.from(value.subarray(0, SUMMARY_ARRAY_FIRST)) };
  }
}

class Full extends Shape {
  #bytes = 0;

  protected count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > FULL_BYTES_MAX) throw new TooLarge();
  }

  protected text(value: string): unknown {
    this.count(Buffer.byteLength(value) + 3);
    return value;
  }

  protected array(value: ArrayLike<unknown>, depth: number): unknown {
    if (value.length > FULL_BYTES_MAX) throw new TooLarge();
    return this.items(value, value.length, depth);
  }

  protected bytes(value: Uint8Array): { length: number; base64: string } {
    this.count(Math.ceil(value.length / 3) * 4);
    return { length: value.length, base64: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  }
}

/** Path of a field: names of fields and indices of arrays, from outer to inner. */
export type FieldPath = readonly (string | number)[];

const STEP = /^(?:\.?([A-Za-z_]\w*)|\[(\d{1,9})\])/;

/**
 * Parses a path such as `a.b[0].c` to `["a", "b", 0, "c"]`. An empty text means the whole message. Returns undefined if the path is
 * invalid.
 */
export function parseFieldPath(text: string): FieldPath | undefined {
  const path: (string | number)[] = [];
  if (text.startsWith(".")) return undefined;
  for (let rest = text; rest !== "";) {
    const [step, name, index] = STEP.exec(rest) ?? [];
    // Only the first name of a path has no dot before it.
    if (step === undefined || (name !== undefined && path.length > 0 && !step.startsWith("."))) return undefined;
    path.push(name ?? Number(index));
    rest = rest.slice(step.length);
  }
  return path;
}

type Picked = { value: unknown } | { missing: string };

/**
 * Returns the part of a message at a path. Returns null for an index beyond the end of an array, since the array may be longer in the next
 * message.
 */
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
        return { missing: `${so_far} (known fields: ${Object.keys(value).slice(0, NAMES_MAX).join(", ") || "none"})` };
      value = (value as Record<string, unknown>)[step];
    }
  }
  return { value };
}

/** Maximum number of field names that an error message lists. */
const NAMES_MAX = 8;

const textOf = (path: FieldPath): string =>
  path.map((step, i) => (typeof step === "number" ? `[${step}]` : (i > 0 ? "." : "") + step)).join("");

const isTypedArray = (value: unknown): value is NodeJS.TypedArray => ArrayBuffer.isView(value) && !(value instanceof DataView);
