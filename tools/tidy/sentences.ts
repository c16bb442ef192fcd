import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { type Finding, lineAt } from "./source.ts";

const WORDS_MAX = 30;
const PAGES = ["*.md", "docs/**/*.md", "deploy/**/*.md", "bench/*.md"];
/** Pages that are not checked. The changelog quotes earlier behavior, and old entries are not rewritten. */
const EXEMPT = new Set(["CHANGELOG.md"]);

/** Finds sentences over 30 words in the documentation, except for generated pages. */
export function findLongSentences(directory: string): Finding[] {
  const pages = globSync(PAGES, { cwd: directory, exclude: (name) => name === "node_modules" }).filter((page) => !EXEMPT.has(page));
  return pages.toSorted().flatMap((file) => {
    const text = readFileSync(path.join(directory, file), "utf8");
    if (/^<!-- Written by /m.test(text)) return [];
    return longSentencesIn(text).map(({ at, words }) => ({
      file,
      line: lineAt(text, at),
      message: `a sentence of ${words} words, at most ${WORDS_MAX}`,
    }));
  });
}

/** Returns the offset and length of each sentence that is too long. A list item, a table cell and a heading end a sentence. */
function longSentencesIn(text: string): { at: number; words: number }[] {
  const prose = text
    .replaceAll(/^(```|~~~)[\s\S]*?^\1/gm, blank)
    .replaceAll(/(`+)[^`\n]+(?:\n[^`\n]+)?\1/g, (code) => `C${blank(code.slice(1))}`)
    .replaceAll(/<!--[\s\S]*?-->|<\/?[a-z][^>\n]*>/g, blank)
    .replaceAll(/\]\([^)]*\)/g, blank);
  return [...prose.matchAll(/(?:[^.!?|·\n]|[.!?](?!\s|\*\*|\)|$)|\n(?!\s*(?:\n|[-*#>|]|\d+\.\s)))+/gm)].flatMap(
    ({ 0: sentence, index }) => {
      const words = sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
      return words > WORDS_MAX ? [{ at: index + sentence.search(/\S/), words }] : [];
    },
  );
}

/** Replaces a text by spaces and keeps its line breaks, so that offsets and lines stay the same. */
const blank = (text: string): string => text.replaceAll(/[^\n]/g, " ");
