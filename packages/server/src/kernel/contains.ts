/**
 * A regular expression of PostgreSQL that finds `text` in any case: `name ~ ${containing(q)}`. The database runs with
 * the C locale, whose lower() and ~* know the case of ASCII letters only, so each letter is spelt in both cases here.
 */
export const containing = (text: string): string => Array.from(text, either).join("");

function either(character: string): string {
  const cases = [...new Set([character, character.toLowerCase(), character.toUpperCase()])].filter((one) => Array.from(one).length === 1);
  if (cases.length > 1) return `[${cases.join("")}]`;
  return /[\p{L}\p{N}\s]/u.test(character) ? character : `\\${character}`;
}
