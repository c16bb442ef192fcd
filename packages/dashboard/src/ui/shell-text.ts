const PLAIN = /^[\w@%+=:,./-]+$/;

/** Quotes any text as one shell word. */
export const shellWord = (text: string): string => (PLAIN.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Joins words to a shell command, with quotes where necessary. */
export const shellLine = (...words: (string | false | undefined)[]): string =>
  words
    .filter((word) => word !== false && word !== undefined)
    .map(shellWord)
    .join(" ");
