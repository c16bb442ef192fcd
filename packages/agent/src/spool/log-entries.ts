import { renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { DiskPart, type Gap, type LogLine, type LogPart, MemoryPart, mergeGaps, readGaps, type StagedPart } from "./log-part.ts";
import { lastSeqOf, listSegments, segmentPath, SegmentWriter } from "./segment-file.ts";
import type { Staging } from "./staging.ts";

/**
 * Maximum record numbers in one segment. After a restart, numbering continues beyond the last segment's maximum, so that no number is used
 * twice.
 */
export const SEGMENT_NUMBERS = 65_536;
const MEMORY_PART_BYTES = 64 * 1024;

/** What the log spool contains, in order: parts with records, and gaps in place of dropped ones. */
export type Entry = { part: LogPart; gap?: undefined } | { gap: Gap; part?: undefined };

/** Returns the highest number of a part or a gap; 0 if it has none, as in a new segment. */
export function lastOf({ part, gap }: Entry): number {
  if (gap !== undefined) return gap.to;
  return part.last < part.first ? 0 : part.last;
}

export function mergeEntries(entries: Entry[], sent: number): Entry[] {
  const merged: Entry[] = [];
  for (const entry of entries) {
    const before = merged.at(-1);
    if (entry.gap && before?.gap && before.gap.to > sent) merged[merged.length - 1] = { gap: mergeGaps(before.gap, entry.gap) };
    else merged.push(entry);
  }
  return merged;
}

/** Adds lines to the memory of this process. */
export function keepInMemory(entries: Entry[], lines: readonly LogLine[]): void {
  for (const line of lines) {
    let part = entries.at(-1)?.part;
    if (!(part instanceof MemoryPart) || part.bytes > MEMORY_PART_BYTES) {
      part = new MemoryPart(line.seq);
      entries.push({ part });
    }
    (part as MemoryPart).add(line);
  }
}

/** Writes the records of a part durably to a file of the directory. */
export function writePart(directory: string, part: MemoryPart | StagedPart): DiskPart {
  const writer = new SegmentWriter(directory, part.first);
  try {
    writer.append(part.content(), true);
  } finally {
    writer.close();
  }
  const path = segmentPath(directory, part.first, part.last);
  renameSync(writer.path, path);
  return new DiskPart({ path, first: part.first, last: part.last, bytes: writer.bytes });
}

/** Reads what an earlier run left. Returns the entries in order, the next record number, and the paths of files without records. */
export function readEntries(directory: string, staging: Staging | undefined): { entries: Entry[]; next: number; empty: string[] } {
  const gaps: Entry[] = readGaps(join(directory, "gaps.json")).map((gap) => ({ gap }));
  const parts = new Map<number, LogPart>();
  const empty: string[] = [];
  let next = 1;
  for (const { path, first, last } of listSegments(directory)) {
    next = Math.max(next, first + SEGMENT_NUMBERS, (last ?? 0) + 1);
    const end = last ?? lastSeqOf(path, first, SEGMENT_NUMBERS);
    if (end < first) empty.push(path);
    else parts.set(first, new DiskPart({ path, first, last: end, bytes: statSync(path).size }));
    next = Math.max(next, end + 1);
  }
  for (const part of staging?.recover(SEGMENT_NUMBERS) ?? []) {
    // If the last run was killed while it moved these records to the disk, keep the complete copy.
    const copy = parts.get(part.first);
    if (copy !== undefined && copy.last >= part.last) {
      part.remove();
      staging?.removed(part);
      continue;
    }
    copy?.remove();
    parts.set(part.first, part);
    next = Math.max(next, part.last + 1);
  }
  const entries = [...gaps, ...Array.from(parts.values(), (part): Entry => ({ part }))];
  return { entries: entries.toSorted((a, b) => lastOf(a) - lastOf(b)), next, empty };
}
