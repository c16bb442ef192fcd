/** Text that is already escaped and colored. */
export class Styled {
  readonly rendered: string;
  constructor(rendered: string) {
    this.rendered = rendered;
  }
}

/**
 * Characters that move the cursor, end a line, change text direction or are invisible. They are escaped, so that names from robots or other
 * users cannot control this terminal.
 */
export const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u001b": "\\x1b" };

/** Returns a value as one line of visible text, with the UNSAFE characters escaped. */
export function plain(value: unknown): string {
  return String(value).replace(UNSAFE, (character) => {
    const code = character.codePointAt(0)!;
    return SHORT[character] ?? (code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`);
  });
}

/** A template tag that escapes its values, except Styled ones. */
export function line(strings: TemplateStringsArray, ...values: unknown[]): string {
  return strings.reduce((text, part, at) => text + render(values[at - 1]) + part);
}

/** Escapes a value unless it is Styled. */
export const render = (value: unknown): string => (value instanceof Styled ? value.rendered : plain(value));

/**
 * Serializes a value as JSON and escapes its control characters; the JSON still parses to the same value. `indent` is the number of spaces,
 * or undefined for one line.
 */
export const jsonText = (value: unknown, indent?: number): string =>
  escapeUnsafe(JSON.stringify(value, undefined, indent), (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${hex(character.charCodeAt(at), 4)}`).join(""),
  );

/** Escapes unsafe characters in a document with `escape`; newlines stay. */
export const escapeUnsafe = (text: string, escape: (character: string) => string): string =>
  text.replace(UNSAFE, (character) => (character === "\n" ? character : escape(character)));

export const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");

export const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ") || "–";
