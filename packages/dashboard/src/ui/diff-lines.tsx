import { diffLines } from "diff";
import { useMemo } from "react";
import { counted } from "./format.ts";
import { cx } from "./text.tsx";

/** Unchanged lines shown around each difference. */
const AROUND = 3;

interface Line {
  sign: " " | "+" | "-" | "…";
  text: string;
}
const SAID = { "+": "added", "-": "removed", "…": "", " ": "" } as const;

/** Shows the differences between two texts. Plus and minus signs repeat what the colors show. Loaded on first use by `Diff`. */
export function DiffLines({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = useMemo(() => linesOf(before, after), [before, after]);
  if (lines.length === 0) return <p className="text-muted">No differences</p>;
  return (
    <div
      role="region"
      aria-label={label}
      tabIndex={0}
      className="max-h-96 overflow-auto rounded-md border border-line bg-sunken py-1 font-mono text-xs"
    >
      {lines.map(({ sign, text }, at) => (
        <div
          key={at}
          className={cx(
            "grid grid-cols-[1.5rem_minmax(0,1fr)]",
            sign === "+" && "bg-ok-soft text-ok",
            sign === "-" && "bg-bad-soft text-bad",
            sign === "…" && "text-muted",
          )}
        >
          <span className="text-center select-none" aria-hidden>
            {sign}
          </span>
          <span className="pr-2 [overflow-wrap:anywhere] whitespace-pre-wrap">
            {SAID[sign] !== "" && <span className="sr-only">{SAID[sign]}: </span>}
            <bdi>{text}</bdi>
          </span>
        </div>
      ))}
    </div>
  );
}

const NEWLINE = "\n";
const ended = (text: string): string => (text === "" || text.endsWith(NEWLINE) ? text : `${text}${NEWLINE}`);

function linesOf(before: string, after: string): Line[] {
  const all: Line[] = diffLines(ended(before), ended(after)).flatMap(({ value, added, removed }) =>
    value
      .replace(/\n$/, "")
      .split(NEWLINE)
      .map((text) => ({ sign: added ? "+" : removed ? "-" : " ", text }) as const),
  );
  const changed = all.flatMap(({ sign }, at) => (sign === " " ? [] : [at]));
  if (changed.length === 0) return [];
  const shown: Line[] = [];
  let next_changed = 0;
  let left_out = 0;
  for (const [at, line] of all.entries()) {
    while (next_changed < changed.length - 1 && changed[next_changed]! + AROUND < at) next_changed += 1;
    if (Math.abs(changed[next_changed]! - at) <= AROUND) {
      if (left_out > 0) shown.push(leftOut(left_out));
      left_out = 0;
      shown.push(line);
    } else left_out += 1;
  }
  if (left_out > 0) shown.push(leftOut(left_out));
  return shown;
}

const leftOut = (lines: number): Line => ({ sign: "…", text: counted(lines, "unchanged line") });
