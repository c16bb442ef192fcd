export type Labels = Record<string, string>;

const KEY = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$/;
const VALUE_CHARACTERS_MAX = 200;

/** Returns an error message for an invalid label; undefined if it is valid. */
export function labelProblem(key: string, value: string): string | undefined {
  if (!KEY.test(key)) return "A key begins with a letter or a digit and has up to 63 letters, digits, dots, dashes, slashes or underscores";
  if (value.length > VALUE_CHARACTERS_MAX) return `A value has up to ${VALUE_CHARACTERS_MAX} characters`;
  return undefined;
}

/** Parses `key=value`, or `key:value` as in filters. */
export function readLabel(text: string): readonly [string, string] | undefined {
  const at = text.search(/[=:]/);
  return at <= 0 ? undefined : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

/** Formats labels, one per line. */
export const labelsText = (labels: Labels): string =>
  Object.entries(labels)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");

/** Parses labels, one per line; `problem` describes the first invalid line. */
export function readLabels(text: string): { labels: Labels; problem?: string } {
  const labels: Labels = {};
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at === -1) return { labels, problem: `Line ${index + 1}: enter the label as key=value` };
    const [key, value] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    const problem = labelProblem(key, value);
    if (problem !== undefined) return { labels, problem: `Line ${index + 1}: ${problem}` };
    labels[key] = value;
  }
  return { labels };
}
