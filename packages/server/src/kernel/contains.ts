/**
 * Returns a PostgreSQL regular expression that matches `text` in any case: `name ~ ${containing(q)}`. The database uses the C locale, whose
 * lower() and ~* only convert ASCII letters, so each letter is given in both cases.
 */
export const containing = (text: string): string => Array.from(text, either).join("");

function either(character: string): string {
  const cases = [...new Set([character, character.toLowerCase(), character.toUpperCase()])].filter((one) => Array.from(one).length === 1);
  if (cases.length > 1) return `[${cases.join("")}]`;
  return /[\p{L}\p{N}\s]/u.test(character) ? character : `\\${character}`;
}
