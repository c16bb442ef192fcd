/** The texts of a scene: plain ones for screenshots, hostile ones for tests. */
export interface Words {
  /** Returns a unique name of 1 to 200 characters without control characters. */
  name(plain: string): string;
  /** Returns a text of any characters and length. */
  text(plain: string): string;
}

export const PLAIN: Words = { name: (plain) => plain, text: (plain) => plain };

/** The function that the payloads call if they are executed. */
export const TRAP = "__roamfleet_ran";

const PAYLOADS = [
  `<script>${TRAP}(1)</script>`,
  `<img src=x onerror=${TRAP}(2)>`,
  `"><svg onload=${TRAP}(3)>`,
  `javascript:${TRAP}(4)`,
  `' onmouseover='${TRAP}(5)' autofocus onfocus='${TRAP}(6)`,
  `{{constructor.constructor('${TRAP}(7)')()}}`,
  `\${${TRAP}(8)}`,
  `<iframe srcdoc="<script>parent.${TRAP}(9)</script>">`,
  `</title></textarea></style><script>${TRAP}(10)</script>`,
  `<a href="javascript:${TRAP}(11)">press</a>`,
];

const DECORATIONS = [
  // Reverses the direction of the following text. The control character that ends this is missing.
  (text: string) => `\u202e${text}`,
  (text: string) => `\u2067\u202b${text}`,
  (text: string) => `${text}${"W".repeat(400)}`,
  (text: string) => `${text}${"ﷺ".repeat(200)}`,
  (text: string) => `${text} z${"\u0300\u0301\u0302".repeat(40)}`,
  (text: string) => `שלום ${text} مرحبا`,
  (text: string) => `${text}\u200b\u2060\ufeff\u{e0041}${"👩‍👩‍👧‍👦".repeat(20)}`,
];

const LONG_TEXT = 10_000;
const NAME_MAX = 200;

/** Returns unique hostile texts with varying payloads and decorations. */
export function hostileWords(): Words & { made: number } {
  const words = {
    made: 0,
    name(plain: string): string {
      const at = (words.made += 1);
      const payload = PAYLOADS[at % PAYLOADS.length] ?? "";
      const decorate = DECORATIONS[at % DECORATIONS.length] ?? String;
      const ending = ` ${plain} ${at}`;
      return cut(decorate(payload), NAME_MAX - ending.length).trim() + ending;
    },
    text(plain: string): string {
      const at = (words.made += 1);
      const payload = PAYLOADS[at % PAYLOADS.length] ?? "";
      const decorate = DECORATIONS[at % DECORATIONS.length] ?? String;
      return `${plain} ${payload}\u001b[31m\r\n\u2028${decorate(payload)} ${"A".repeat(LONG_TEXT)}${payload}`;
    },
  };
  return words;
}

/** Truncates between characters, not within a surrogate pair. */
const cut = (text: string, length_max: number): string => text.slice(0, length_max).toWellFormed().replaceAll("\ufffd", "");
