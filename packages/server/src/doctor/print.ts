import { createColors } from "picocolors";
import { CHECKS } from "./checks.ts";
import type { Finding, Status } from "./finding.ts";

export interface Screen {
  colors: boolean;
  /** Width of the terminal; undefined does not break lines. */
  columns: number | undefined;
}

const SYMBOLS: Readonly<Record<Status, string>> = { ok: "✓", warning: "!", problem: "✗", skipped: "–" };
const NAME_WIDTH = Math.max(...CHECKS.map(({ name }) => name.length));
const TEXT_AT = NAME_WIDTH + 4;
const TEXT_COLUMNS_MIN = 30;

/** Formats the findings of one check. Its name is on the first line only. */
export function printFindings(findings: readonly Finding[], { colors, columns }: Screen): string {
  const paint = createColors(colors);
  const tones: Readonly<Record<Status, (text: string) => string>> = {
    ok: paint.green,
    warning: paint.yellow,
    problem: paint.red,
    skipped: paint.dim,
  };
  const room = columns === undefined ? Infinity : Math.max(TEXT_COLUMNS_MIN, columns - TEXT_AT);
  const lines = findings.flatMap(({ check, status, seen, hint }, at) => {
    const tone = tones[status];
    const name = at === 0 ? check : "";
    const [first = "", ...rest] = wrap(seen, room);
    const shown = [`${tone(SYMBOLS[status])} ${paint.bold(name.padEnd(NAME_WIDTH))}  ${status === "skipped" ? paint.dim(first) : first}`];
    shown.push(...rest.map((line) => `${" ".repeat(TEXT_AT)}${line}`));
    // The hint follows the arrow after one space, and further lines are aligned with it.
    const hints = hint === undefined ? [] : hint.split("\n").flatMap((line) => wrap(line, room - 2));
    shown.push(...hints.map((line, index) => `${" ".repeat(TEXT_AT)}${paint.cyan(`${index === 0 ? "→" : " "} ${line}`)}`));
    return shown;
  });
  return lines.map((line) => `${line.trimEnd()}\n`).join("");
}

export function countStatuses(findings: readonly Finding[]): { problems: number; warnings: number } {
  const count = (wanted: Status): number => findings.filter(({ status }) => status === wanted).length;
  return { problems: count("problem"), warnings: count("warning") };
}

/** Formats `2 problems, 1 warning`. */
export function summarize(findings: readonly Finding[]): string {
  const { problems, warnings } = countStatuses(findings);
  const parts = [
    ...(problems > 0 ? [`${problems} problem${problems === 1 ? "" : "s"}`] : []),
    ...(warnings > 0 ? [`${warnings} warning${warnings === 1 ? "" : "s"}`] : []),
  ];
  return parts.length === 0 ? "no problems found" : parts.join(", ");
}

/** Breaks text at spaces into lines of at most `columns` characters. A longer word gets a separate line. */
function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
