import { rmSync } from "node:fs";
import { readJson, writeJson } from "../disk/write-atomically.ts";

/** Dropped records: `count` of them, with numbers between `from` and `to`. */
export interface Gap {
  from: number;
  to: number;
  count: number;
}

export const mergeGaps = (a: Gap, b: Gap): Gap => ({ from: a.from, to: b.to, count: a.count + b.count });

/** Removes the records that the server already has; only possible if every number in between was dropped. */
export function trimGap(gap: Gap, acked: number): void {
  if (gap.from > acked || gap.to <= acked || gap.count !== gap.to - gap.from + 1) return;
  gap.from = acked + 1;
  gap.count = gap.to - acked;
}

/** Returns none if the file is damaged: then only the reason for missing numbers is lost. */
export function readGaps(path: string): Gap[] {
  const value = readJson(path);
  const gaps = typeof value === "object" && value !== null && "gaps" in value ? value.gaps : undefined;
  return Array.isArray(gaps) ? gaps.filter(isGap) : [];
}

export function writeGaps(path: string, gaps: Gap[]): void {
  if (gaps.length === 0) rmSync(path, { force: true });
  else writeJson(path, { gaps });
}

function isGap(value: unknown): value is Gap {
  if (typeof value !== "object" || value === null) return false;
  const { from, to, count } = value as Partial<Gap>;
  return Number.isSafeInteger(from) && Number.isSafeInteger(to) && Number.isSafeInteger(count) && from! <= to! && count! > 0;
}
