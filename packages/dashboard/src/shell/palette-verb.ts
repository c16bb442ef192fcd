/** The verbs that the command palette understands at the start of its text. */
const VERBS = ["deploy", "logs", "metrics", "acknowledge"] as const;
export type Verb = (typeof VERBS)[number];

const SHORTEST = 3;

/**
 * Splits the text of the palette into a verb and the name that follows: "logs cart-1" → logs, "cart-1". A verb may be shortened to three
 * letters. Without a verb, the whole text is the name.
 */
export function readVerb(text: string): { verb: Verb | undefined; name: string } {
  const [first = "", ...rest] = text.trim().split(/\s+/);
  const typed = first.toLowerCase();
  const verb = typed.length < SHORTEST ? undefined : VERBS.find((one) => one.startsWith(typed));
  return verb === undefined ? { verb, name: text.trim() } : { verb, name: rest.join(" ") };
}
