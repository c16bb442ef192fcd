export const OUTPUT_FORMATS = ["table", "wide", "json", "yaml"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

export const isOutputFormat = (text: string | undefined): text is OutputFormat => OUTPUT_FORMATS.some((format) => format === text);

/** Returns the output format in unparsed arguments, or undefined: errors of arguments that cannot be parsed use that format too. */
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
