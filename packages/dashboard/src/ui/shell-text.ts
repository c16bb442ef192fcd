const PLAIN = /^[\w@%+=:,./-]+$/;

/** Text as one word of a shell, whatever is in it. */
export const shellWord = (text: string): string => (PLAIN.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** A line for the terminal of these words: what somebody named is quoted where it must be. */
export const shellLine = (...words: (string | false | undefined)[]): string =>
  words
    .filter((word) => word !== false && word !== undefined)
    .map(shellWord)
    .join(" ");
