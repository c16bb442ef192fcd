/** Text that already has colours, and was escaped before it got them. */
export class Styled {
  readonly rendered: string;
  constructor(rendered: string) {
    this.rendered = rendered;
  }
}

/**
 * Characters that move the cursor, end a line, turn the direction of what follows or cannot be seen: what a robot or
 * another person named must not act on this terminal.
 */
export const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u001b": "\\x1b" };

/** One line of visible text: everything else is written as an escape. */
export function plain(value: unknown): string {
  return String(value).replace(UNSAFE, (character) => {
    const code = character.codePointAt(0)!;
    return SHORT[character] ?? (code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`);
  });
}

/** A template whose values are escaped, but for those that are Styled. */
export function line(strings: TemplateStringsArray, ...values: unknown[]): string {
  return strings.reduce((text, part, at) => text + render(values[at - 1]) + part);
}

/** Escaped, unless it is Styled. */
export const render = (value: unknown): string => (value instanceof Styled ? value.rendered : plain(value));

/**
 * JSON whose strings hold no character that acts on a terminal: the same value, written with escapes. `indent` is the
 * number of spaces, or undefined for one line.
 */
export const jsonText = (value: unknown, indent?: number): string =>
  escapeUnsafe(JSON.stringify(value, undefined, indent), (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${hex(character.charCodeAt(at), 4)}`).join(""),
  );

/** A document with the unsafe characters as `escape` writes them; the ends of lines stay. */
export const escapeUnsafe = (text: string, escape: (character: string) => string): string =>
  text.replace(UNSAFE, (character) => (character === "\n" ? character : escape(character)));

export const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");
