export const OUTPUT_FORMATS = ["table", "wide", "json", "yaml"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

export const isOutputFormat = (text: string | undefined): text is OutputFormat => OUTPUT_FORMATS.some((format) => format === text);

/**
 * The format that the words of a call ask for, found before they are parsed: a call that cannot be parsed is told of
 * in that format too. Undefined when they ask for none.
 */
export function scanFormat(args: readonly string[]): OutputFormat | undefined {
  let found: string | undefined;
  for (const [at, word] of args.entries()) {
    if (word === "--") break;
    if (word === "--json") found = "json";
    else if (word === "-o" || word === "--output") found = args[at + 1];
    else found = /^(?:-o=?|--output=)(\w+)$/.exec(word)?.[1] ?? found;
  }
  return isOutputFormat(found) ? found : undefined;
}
