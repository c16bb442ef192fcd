import { closeSync, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { lineSeq, LOG_LINE_BYTES_MAX } from "../logs/record.ts";
import { fieldsOf, listOf } from "../json.ts";
import { openLine, sealLine } from "./segment-file.ts";
import { readJson, writeJson } from "../disk/write-atomically.ts";

export interface LogLine {
  seq: number;
  text: string;
}

/** A run of consecutive records, `first` to `last`, in memory or in a file. */
export interface LogPart {
  readonly kind: "disk" | "memory" | "staged";
  readonly first: number;
  last: number;
  bytes: number;
  /** Returns the records after `seq` in order, up to the limits. Leaves out records that the disk has damaged. */
  read(seq: number, bounds: { records: number; bytes: number }): LogLine[];
  remove(): void;
}

/** Records kept in memory while writes to the disk fail. */
export class MemoryPart implements LogPart {
  readonly kind = "memory";
  readonly first: number;
  last: number;
  bytes = 0;
  #lines: LogLine[] = [];

  constructor(first: number) {
    this.first = first;
    this.last = first - 1;
  }

  add(line: LogLine): void {
    this.#lines.push(line);
    this.last = line.seq;
    this.bytes += Buffer.byteLength(line.text) + 1;
  }

  /** Returns all records in the format of a spool file. */
  content(): Buffer {
    return Buffer.from(this.#lines.map(({ text }) => sealLine(text)).join(""));
  }

  read(seq: number, bounds: { records: number; bytes: number }): LogLine[] {
    return take(this.#lines, Math.max(0, seq - this.first + 1), bounds);
  }

  remove(): void {
    this.#lines = [];
  }
}

function take(lines: LogLine[], from: number, bounds: { records: number; bytes: number }): LogLine[] {
  const taken: LogLine[] = [];
  let bytes = 0;
  for (let i = from; i < lines.length && taken.length < bounds.records; i += 1) {
    const line = lines[i]!;
    bytes += Buffer.byteLength(line.text) + 1;
    if (bytes > bounds.bytes && taken.length > 0) break;
    taken.push(line);
  }
  return taken;
}

/** Size of the read buffer. The longest line that the agent writes fits. */
const READ_BYTES = LOG_LINE_BYTES_MAX + 16;
const NEWLINE = 0x0a;

export class DiskPart implements LogPart {
  readonly kind: "disk" | "staged" = "disk";
  readonly first: number;
  last: number;
  bytes: number;
  path: string;
  /** Where to continue reading: `offset` is the offset of the line after record `seq`. */
  #position = { seq: 0, offset: 0 };

  constructor(options: { path: string; first: number; last: number; bytes: number }) {
    this.path = options.path;
    this.first = options.first;
    this.last = options.last;
    this.bytes = options.bytes;
  }

  read(seq: number, bounds: { records: number; bytes: number }): LogLine[] {
    if (this.#position.seq > seq) this.#position = { seq: 0, offset: 0 };
    const found: LogLine[] = [];
    let bytes = 0;
    const handle = openSync(this.path, "r");
    try {
      while (found.length < bounds.records && bytes < bounds.bytes) {
        const lines = this.#readLines(handle);
        if (lines.length === 0) break;
        for (const bytes_of_line of lines) {
          const length = bytes_of_line.length + 1;
          if (found.length === bounds.records || (found.length > 0 && bytes + length > bounds.bytes)) return found;
          const line = this.#check(bytes_of_line.toString("utf8"));
          this.#position = { seq: line?.seq ?? this.#position.seq, offset: this.#position.offset + length };
          if (line === undefined || line.seq <= seq) continue;
          found.push(line);
          bytes += length;
        }
      }
    } finally {
      closeSync(handle);
    }
    return found;
  }

  remove(): void {
    rmSync(this.path, { force: true });
  }

  /** Returns the complete lines from the position on; none at the end, or if no newline follows within the maximum length of a line. */
  #readLines(handle: number): Buffer[] {
    const room = Math.min(READ_BYTES, this.bytes - this.#position.offset);
    if (room <= 0) return [];
    const buffer = Buffer.allocUnsafe(room);
    const count = readSync(handle, buffer, 0, room, this.#position.offset);
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = buffer.indexOf(NEWLINE, start); end >= 0 && end < count; end = buffer.indexOf(NEWLINE, start)) {
      lines.push(buffer.subarray(start, end));
      start = end + 1;
    }
    return lines;
  }

  #check(line: string): LogLine | undefined {
    const text = openLine(line);
    const seq = text === undefined ? undefined : lineSeq(text);
    if (text === undefined || seq === undefined || seq <= this.#position.seq || seq < this.first || seq > this.last) return undefined;
    return { seq, text };
  }
}

/** Records in a file in memory (tmpfs): they outlive this process, but not the machine. */
export class StagedPart extends DiskPart {
  override readonly kind = "staged";

  /** Returns all records in the format of a spool file. */
  content(): Buffer {
    return readFileSync(this.path).subarray(0, this.bytes);
  }
}

/** A gap of `count` dropped records, with numbers from `from` to `to`. */
export interface Gap {
  from: number;
  to: number;
  count: number;
}

export const mergeGaps = (a: Gap, b: Gap): Gap => ({ from: a.from, to: b.to, count: a.count + b.count });

/** Removes the numbers that the server already has from a gap. Does nothing unless every number in the gap was dropped. */
export function trimGap(gap: Gap, acked: number): void {
  if (gap.from > acked || gap.to <= acked || gap.count !== gap.to - gap.from + 1) return;
  gap.from = acked + 1;
  gap.count = gap.to - acked;
}

/** Reads the stored gaps. Returns none if the file is damaged: then only the reason for missing numbers is lost. */
export function readGaps(path: string): Gap[] {
  return listOf(fieldsOf(readJson(path))["gaps"]).filter(isGap);
}

export function writeGaps(path: string, gaps: Gap[]): void {
  if (gaps.length === 0) rmSync(path, { force: true });
  else writeJson(path, { gaps });
}

function isGap(value: unknown): value is Gap {
  const { from, to, count } = fieldsOf(value) as Partial<Gap>;
  return Number.isSafeInteger(from) && Number.isSafeInteger(to) && Number.isSafeInteger(count) && from! <= to! && count! > 0;
}
