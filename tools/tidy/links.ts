import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { type Finding, lineAt } from "./source.ts";

const EXTERNAL = /^[a-z][a-z0-9+.-]*:|^\/\//i;

/** Finds links of the documentation to a missing file or heading. */
export function findDeadLinks(directory: string): Finding[] {
  const pages = globSync(["*.md", "docs/**/*.md", "packages/*/*.md", "deploy/**/*.md", "bench/*.md", "tests/**/*.md"], {
    cwd: directory,
    exclude: (name) => name === "node_modules",
  });
  return pages.toSorted().flatMap((page) => deadLinksOf(directory, page));
}

function deadLinksOf(directory: string, page: string): Finding[] {
  const text = readFileSync(path.join(directory, page), "utf8");
  const prose = withoutCode(text);
  return [...prose.matchAll(/\]\(<?([^)\s>]+)>?[^)]*\)|(?:src|href)="([^"]+)"|^\[[^\]]+\]:\s*(\S+)/gm)].flatMap((match) => {
    const link = match[1] ?? match[2] ?? match[3] ?? "";
    const problem = EXTERNAL.test(link) ? undefined : problemOf(directory, page, link);
    return problem === undefined ? [] : [{ file: page, line: lineAt(text, match.index), message: `${link}: ${problem}` }];
  });
}

function problemOf(directory: string, page: string, link: string): string | undefined {
  const [target = "", anchor] = decodeURI(link).split("#");
  const file = target === "" ? page : path.join(target.startsWith("/") ? "." : path.dirname(page), target);
  if (path.relative(".", file).startsWith("..")) return "leads out of the repository";
  if (!existsSync(path.join(directory, file))) return "no such file";
  if (anchor === undefined || anchor === "" || !file.endsWith(".md")) return undefined;
  return anchorsOf(readFileSync(path.join(directory, file), "utf8")).has(anchor) ? undefined : "no such heading";
}

/** Returns the anchors that GitHub generates for headings; the second of two equal ones gets `-1`. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of withoutCode(text).matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const slug = heading
      .toLowerCase()
      .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-");
    let anchor = slug;
    for (let repeat = 1; anchors.has(anchor); repeat += 1) anchor = `${slug}-${repeat}`;
    anchors.add(anchor);
  }
  for (const [, id = ""] of text.matchAll(/<a (?:id|name)="([^"]+)"/g)) anchors.add(id);
  return anchors;
}

/** Blanks fenced code blocks and keeps offsets. Inline code stays, because headings contain it and its brackets are rarely links. */
function withoutCode(text: string): string {
  return text.replace(/^(```|~~~)[\s\S]*?^\1/gm, (block) => block.replace(/[^\n]/g, " "));
}
