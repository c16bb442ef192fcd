import { renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { LogRecord } from "../contract.ts";
import { errorText, makeDirectory } from "../disk/write-atomically.ts";
import { encodeGap, encodeRecord, lineSeq } from "../logs/record.ts";
import { DiskPart, type Gap, type LogLine, type LogPart, MemoryPart, mergeGaps, readGaps, trimGap, writeGaps } from "./log-part.ts";
import { listSegments, openLine, readWholeLines, sealLine, segmentPath, SegmentWriter } from "./segment-file.ts";

/**
 * Maximum record numbers in one segment. After a restart, numbering continues beyond the last segment's maximum, so that no number is used
 * twice.
 */
const SEGMENT_NUMBERS = 65_536;
const SEGMENT_BYTES_MAX = 1024 * 1024;
const MEMORY_PART_BYTES = 64 * 1024;
/** Maximum bytes of records in memory while writes to the disk fail. The newest records are kept. */
const MEMORY_BYTES_MAX = 1024 * 1024;
/** Maximum bytes of lines that wait for a write. All lines of one turn of the event loop are written in one batch. */
const UNFLUSHED_BYTES_MAX = 64 * 1024;
const DISK_RETRY_MS = 5_000;

interface LogSpoolOptions {
  directory: string;
  /** Maximum bytes on disk. Above it, the oldest records are dropped. */
  bytes_max: number;
  clock: Clock;
  /** Returns the time for records without a time. */
  now: () => Date;
  /** Called with a reason when writes to the disk begin to fail, and with undefined when they succeed again. */
  on_disk: (reason: string | undefined) => void;
}

interface LogBatch {
  /** The records as JSON objects, in order. */
  lines: string[];
  last_seq: number;
  bytes: number;
}

type Entry = { part: LogPart; gap?: undefined } | { gap: Gap; part?: undefined };

/**
 * Queue of log records for the server, with one reader. Records are numbered and kept on disk up to a limit. They are read in order from a
 * cursor and deleted when the server has acknowledged them. Dropped records are replaced by one gap record. Numbers increase across
 * restarts and may skip values; only a gap record means loss.
 */
export class LogSpool {
  readonly #options: LogSpoolOptions;
  readonly #segment_bytes: number;
  #entries: Entry[] = [];
  #writer: SegmentWriter | undefined;
  #unflushed: LogLine[] = [];
  #unflushed_bytes = 0;
  #next = 1;
  /** Cursor of the reader: all records up to this number have been read. */
  #sent = 0;
  #acked = 0;
  #disk_retry_at: number | undefined;
  #dropped = 0;
  #closed = false;

  /** Opens the spool. Throws if the directory cannot be read or created. A full disk is no error. */
  constructor(options: LogSpoolOptions) {
    this.#options = options;
    this.#segment_bytes = Math.min(SEGMENT_BYTES_MAX, Math.ceil(options.bytes_max / 8));
    makeDirectory(options.directory);
    this.#recover();
  }

  get dropped(): number {
    return this.#dropped;
  }

  get bytes(): number {
    return this.#entries.reduce((sum, { part }) => sum + (part?.bytes ?? 0), this.#unflushed_bytes);
  }

  get has_unsent(): boolean {
    return this.#unflushed.length > 0 || this.#entries.some((entry) => lastOf(entry) > this.#sent);
  }

  /** Numbers a record and stores it; never throws. A microtask writes it before the next event is handled, so kill -9 loses none. */
  append(record: LogRecord): void {
    if (this.#closed) return;
    const text = encodeRecord(this.#next, record, this.#options.now);
    if (this.#unflushed.length === 0) queueMicrotask(() => this.#flush());
    this.#unflushed.push({ seq: this.#next, text });
    this.#unflushed_bytes += text.length + 1;
    this.#next += 1;
    if (this.#unflushed_bytes > UNFLUSHED_BYTES_MAX) this.#flush();
  }

  /** Returns the next unread records within the limits, but at least one; undefined if there are none. */
  next(bounds: { records: number; bytes: number }): LogBatch | undefined {
    this.#flush();
    const batch: LogBatch = { lines: [], last_seq: this.#sent, bytes: 0 };
    const add = (line: LogLine): void => {
      batch.lines.push(line.text);
      batch.bytes += Buffer.byteLength(line.text) + 1;
      batch.last_seq = line.seq;
      this.#sent = line.seq;
    };
    for (const entry of this.#entries) {
      const room = { records: bounds.records - batch.lines.length, bytes: bounds.bytes - batch.bytes };
      if (room.records <= 0 || room.bytes <= 0) break;
      if (lastOf(entry) <= this.#sent) continue;
      if (entry.gap !== undefined) add({ seq: entry.gap.to, text: encodeGap(entry.gap, this.#options.now) });
      else if (!this.#readPart(entry.part, room, add)) break;
    }
    return batch.lines.length === 0 ? undefined : batch;
  }

  /** Deletes the records up to `seq`, since the server has them. */
  acknowledge(seq: number): void {
    if (seq <= this.#acked) return;
    this.#acked = Math.min(seq, this.#next - 1);
    this.#sent = Math.max(this.#sent, this.#acked);
    this.#forget();
  }

  #forget(): void {
    const newest = this.#entries.findLast((entry) => entry.part?.kind === "disk");
    const had_gaps = this.#entries.some((entry) => entry.gap);
    this.#entries = this.#entries.filter((entry) => {
      if (lastOf(entry) > this.#acked) return true;
      // Keep the newest file until the next one exists: its name records which numbers are in use.
      if (entry === newest) return true;
      entry.part?.remove();
      return false;
    });
    if (had_gaps) this.#saveGaps();
  }

  /** Moves the cursor back to the last record that the server has: later records are read again. */
  rewind(acked: number): void {
    if (acked >= this.#next) return this.#startBehind(acked);
    this.acknowledge(acked);
    this.#sent = this.#acked;
    for (const { gap } of this.#entries) if (gap !== undefined) trimGap(gap, this.#acked);
    this.#entries = mergeEntries(this.#entries, this.#sent);
    this.#saveGaps();
  }

  /**
   * Flushes appended records to disk, for a source that then deletes its own copy. Throws if the disk fails, or if records are still in
   * memory because of an earlier failure.
   */
  sync(): void {
    this.#flush();
    if (this.#entries.some(({ part }) => part?.kind === "memory")) throw new Error("log records cannot be written to the disk");
    if (this.#writer?.usable === true) this.#writer.sync();
  }

  close(): void {
    this.#disk_retry_at = undefined;
    this.#flush();
    this.#tryDisk(() => this.#moveMemoryToDisk());
    this.#closed = true;
    this.#writer?.close();
    this.#writer = undefined;
  }

  /** Reads records of a part. Inserts a gap record in place of damaged records. Returns whether the part was read to its end. */
  #readPart(part: LogPart, room: { records: number; bytes: number }, add: (line: LogLine) => void): boolean {
    const from = Math.max(this.#sent + 1, part.first);
    let lines: LogLine[];
    try {
      lines = part.read(from - 1, room);
    } catch (error) {
      this.#options.on_disk(errorText(error));
      lines = [];
    }
    let expected = from;
    const addGap = (to: number): void =>
      add({ seq: to, text: encodeGap({ from: expected, to, count: to - expected + 1 }, this.#options.now) });
    for (const line of lines) {
      if (line.seq > expected) addGap(line.seq - 1);
      add(line);
      expected = line.seq + 1;
    }
    if (lines.length === 0 && expected <= part.last) addGap(part.last);
    return this.#sent >= part.last;
  }

  #recover(): void {
    const { directory } = this.#options;
    this.#entries = readGaps(join(directory, "gaps.json")).map((gap) => ({ gap }));
    const empty: string[] = [];
    for (const { path, first, last } of listSegments(directory)) {
      this.#next = Math.max(this.#next, first + SEGMENT_NUMBERS, (last ?? 0) + 1);
      const end = last ?? lastSeqOf(path, first);
      if (end < first) empty.push(path);
      else this.#entries.push({ part: new DiskPart({ path, first, last: end, bytes: statSync(path).size }) });
      this.#next = Math.max(this.#next, end + 1);
    }
    this.#entries.sort((a, b) => lastOf(a) - lastOf(b));
    this.#tryDisk(() => {
      this.#startSegment(this.#next);
      for (const path of empty) rmSync(path, { force: true });
    });
    this.#enforceBounds();
  }

  #flush(): void {
    if (this.#unflushed.length === 0) return;
    const lines = this.#unflushed;
    this.#unflushed = [];
    this.#unflushed_bytes = 0;
    if (!this.#tryDisk(() => this.#writeToDisk(lines))) this.#keepInMemory(lines);
    this.#enforceBounds();
  }

  #writeToDisk(lines: LogLine[]): void {
    this.#moveMemoryToDisk();
    const first = lines[0]!.seq;
    const writer = this.#writer;
    const current = this.#entries.at(-1)?.part;
    const fits = writer?.usable === true && writer.bytes < this.#segment_bytes && lines.at(-1)!.seq < writer.first + SEGMENT_NUMBERS;
    const follows = current instanceof DiskPart && current.path === writer?.path && current.last === first - 1;
    if (!fits || !follows) this.#startSegment(first);
    this.#writer!.append(Buffer.from(lines.map(({ text }) => sealLine(text)).join("")));
    const part = this.#entries.at(-1)!.part!;
    part.last = lines.at(-1)!.seq;
    part.bytes = this.#writer!.bytes;
  }

  /** Closes the current segment, gives it its final name, and begins the next one. */
  #startSegment(first: number): void {
    const before = this.#writer;
    const part = this.#entries.findLast((entry) => entry.part instanceof DiskPart && entry.part.path === before?.path)?.part;
    if (before?.usable === true && before.bytes > 0) before.sync();
    before?.close();
    const writer = new SegmentWriter(this.#options.directory, first);
    this.#writer = writer;
    if (part instanceof DiskPart && part.path !== writer.path && part.last >= part.first) {
      const path = segmentPath(this.#options.directory, part.first, part.last);
      renameSync(part.path, path);
      part.path = path;
    } else if (before !== undefined && before.path !== writer.path) {
      before.remove();
      this.#entries = this.#entries.filter((entry) => entry.part === undefined || entry.part !== part);
    }
    this.#entries = this.#entries.filter((entry) => !(entry.part instanceof DiskPart && entry.part.path === writer.path));
    this.#entries.push({ part: new DiskPart({ path: writer.path, first, last: first - 1, bytes: 0 }) });
    this.#forget();
  }

  #moveMemoryToDisk(): void {
    for (const [index, { part }] of this.#entries.entries()) {
      if (!(part instanceof MemoryPart)) continue;
      const writer = new SegmentWriter(this.#options.directory, part.first);
      try {
        writer.append(part.content());
      } finally {
        writer.close();
      }
      const path = segmentPath(this.#options.directory, part.first, part.last);
      renameSync(writer.path, path);
      this.#entries[index] = { part: new DiskPart({ path, first: part.first, last: part.last, bytes: writer.bytes }) };
    }
  }

  #keepInMemory(lines: LogLine[]): void {
    for (const line of lines) {
      let part = this.#entries.at(-1)?.part;
      if (!(part instanceof MemoryPart) || part.bytes > MEMORY_PART_BYTES) {
        part = new MemoryPart(line.seq);
        this.#entries.push({ part });
      }
      (part as MemoryPart).add(line);
    }
  }

  #enforceBounds(): void {
    this.#enforce("disk", this.#options.bytes_max);
    this.#enforce("memory", MEMORY_BYTES_MAX);
  }

  #enforce(kind: LogPart["kind"], bytes_max: number): void {
    let bytes = 0;
    for (const { part } of this.#entries) if (part?.kind === kind) bytes += part.bytes;
    let changed = false;
    while (bytes > bytes_max) {
      const index = this.#entries.findIndex(({ part }) => part?.kind === kind);
      const part = this.#entries[index]?.part;
      if (part === undefined || index === this.#entries.length - 1) break;
      bytes -= part.bytes;
      part.remove();
      this.#entries.splice(index, 1, ...this.#gapsFor(part));
      changed = true;
    }
    if (!changed) return;
    this.#entries = mergeEntries(this.#entries, this.#sent);
    this.#saveGaps();
  }

  /**
   * Returns the gaps that replace a dropped part, split at the cursor. The server may already have the records before the cursor, so their
   * gap is sent only if the cursor moves back.
   */
  #gapsFor(part: LogPart): Entry[] {
    const gaps: Entry[] = [];
    const from = Math.max(part.first, this.#acked + 1);
    const middle = Math.min(part.last, this.#sent);
    if (from <= middle) gaps.push({ gap: { from, to: middle, count: middle - from + 1 } });
    const rest = Math.max(from, middle + 1);
    if (rest <= part.last) gaps.push({ gap: { from: rest, to: part.last, count: part.last - rest + 1 } });
    this.#dropped += Math.max(0, part.last - rest + 1);
    return gaps;
  }

  /**
   * Continues after the server's number, which is higher than any used here: this disk is an old copy. Replaces its records by one gap,
   * since they cannot be distinguished from newer ones.
   */
  #startBehind(acked: number): void {
    this.#flush();
    let count = 0;
    for (const { part, gap } of this.#entries) {
      count += gap?.count ?? part!.last - part!.first + 1;
      part?.remove();
    }
    this.#writer?.remove();
    this.#writer = undefined;
    this.#dropped += count;
    this.#entries = count === 0 ? [] : [{ gap: { from: acked + 1, to: acked + 1, count } }];
    this.#next = acked + (count === 0 ? 1 : 2);
    this.#acked = acked;
    this.#sent = acked;
    this.#tryDisk(() => this.#startSegment(this.#next));
    this.#saveGaps();
  }

  #saveGaps(): void {
    const gaps = this.#entries.flatMap(({ gap }) => (gap === undefined ? [] : [gap]));
    // Ignore a failed write: after a restart only the reason for missing numbers is lost.
    this.#tryDisk(() => writeGaps(join(this.#options.directory, "gaps.json"), gaps));
  }

  /** Runs `work`, which writes to the disk. Returns false if it fails; the disk is then not used for DISK_RETRY_MS. */
  #tryDisk(work: () => void): boolean {
    const now = this.#options.clock.monotonic();
    if (this.#disk_retry_at !== undefined && now < this.#disk_retry_at) return false;
    try {
      work();
    } catch (error) {
      if (this.#disk_retry_at === undefined) this.#options.on_disk(errorText(error));
      this.#disk_retry_at = now + DISK_RETRY_MS;
      return false;
    }
    if (this.#disk_retry_at !== undefined) this.#options.on_disk(undefined);
    this.#disk_retry_at = undefined;
    return true;
  }
}

/** Returns the highest number of a part or a gap; 0 if it has none, as in a new segment. */
function lastOf({ part, gap }: Entry): number {
  if (gap !== undefined) return gap.to;
  return part.last < part.first ? 0 : part.last;
}

function mergeEntries(entries: Entry[], sent: number): Entry[] {
  const merged: Entry[] = [];
  for (const entry of entries) {
    const before = merged.at(-1);
    if (entry.gap && before?.gap && before.gap.to > sent) merged[merged.length - 1] = { gap: mergeGaps(before.gap, entry.gap) };
    else merged.push(entry);
  }
  return merged;
}

/** Returns the number of the last record in a segment that its writer did not complete. */
function lastSeqOf(path: string, first: number): number {
  let last = first - 1;
  for (const line of readWholeLines(path)) {
    const text = openLine(line);
    const seq = text === undefined ? undefined : lineSeq(text);
    if (seq !== undefined && seq > last && seq < first + SEGMENT_NUMBERS) last = seq;
  }
  return last;
}
