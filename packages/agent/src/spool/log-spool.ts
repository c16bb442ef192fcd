import { renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import type { LogRecord } from "../contract.ts";
import { errorText, makeDirectory } from "../disk/write-atomically.ts";
import { encodeGap, encodeRecord } from "../logs/record.ts";
import { type Entry, keepInMemory, lastOf, mergeEntries, readEntries, SEGMENT_NUMBERS, writePart } from "./log-entries.ts";
import { DiskPart, type LogLine, type LogPart, MemoryPart, StagedPart, trimGap, writeGaps } from "./log-part.ts";
import { sealLine, segmentPath, SegmentWriter } from "./segment-file.ts";
import { openStaging, type Staging, STAGED_BYTES_MAX } from "./staging.ts";

const SEGMENT_BYTES_MAX = 1024 * 1024;
/** Maximum bytes of records in memory while writes to the disk fail. The newest records are kept. */
const MEMORY_BYTES_MAX = 1024 * 1024;
/** Maximum bytes of lines that wait for a write. All lines of one turn of the event loop are written in one batch. */
const UNFLUSHED_BYTES_MAX = 64 * 1024;
const DISK_RETRY_MS = 5_000;

interface LogSpoolOptions {
  directory: string;
  /** Directory in memory (tmpfs) for records that wait for their acknowledgement. Absent: they are written to `directory`. */
  memory_directory?: string | undefined;
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
  /** The highest number of the records that earlier processes stored and the server had not acknowledged; 0 if there are none. */
  stored_seq = 0;
  /** Cursor of the reader: all records up to this number have been read. */
  #sent = 0;
  #acked = 0;
  #disk_retry_at: number | undefined;
  #dropped = 0;
  #closed = false;
  readonly #staging: Staging | undefined;
  /** Whether the server is connected. Then new records are staged in memory. */
  #linked = false;

  /** Opens the spool. Throws if the directory cannot be read or created. A full disk is no error. */
  constructor(options: LogSpoolOptions) {
    this.#options = options;
    this.#segment_bytes = Math.min(SEGMENT_BYTES_MAX, Math.ceil(options.bytes_max / 8));
    makeDirectory(options.directory);
    const { memory_directory, clock } = options;
    if (memory_directory !== undefined) {
      const overdue = (before: number): void => void this.#tryDisk(() => this.#moveToDisk((part) => this.#staging!.isOlder(part, before)));
      this.#staging = openStaging({ directory: memory_directory, clock, overdue });
    }
    this.#recover();
  }

  /** Number of the newest record. */
  get last_seq(): number {
    return this.#next - 1;
  }

  /** Whether the server has all records up to `seq`. */
  isAcknowledged = (seq: number): boolean => seq <= this.#acked;

  /** Whether all records would survive the end of this process: none is only in its memory, because the disk is full. */
  get is_written(): boolean {
    this.#flush();
    return !this.#entries.some(({ part }) => part?.kind === "memory");
  }

  /**
   * Must be called when the link to the server opens or closes. While it is open, new records are kept in a file in memory until they are
   * acknowledged; when it closes, they are written to the disk.
   */
  set linked(is_linked: boolean) {
    this.#linked = is_linked;
    if (is_linked || this.#closed) return;
    this.#flush();
    this.#tryDisk(() => this.#moveToDisk(() => true));
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

  /** Numbers a record and stores it; never throws. A microtask writes it to a file, so kill -9 in a later event loses no record. */
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
    this.#staging?.rotate();
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
      this.#removePart(entry.part);
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
   * memory because of an earlier failure. Records that wait for their acknowledgement are written, too: see `isAcknowledged`.
   */
  sync(): void {
    this.#flush();
    this.#moveToDisk(() => true);
    if (this.#entries.some(({ part }) => part?.kind === "memory")) throw new Error("log records cannot be written to the disk");
    if (this.#writer?.usable === true) this.#writer.sync();
  }

  close(): void {
    this.#disk_retry_at = undefined;
    this.#flush();
    this.#tryDisk(() => this.#moveToDisk(() => true));
    this.#staging?.close();
    this.#closed = true;
    this.#closeWriter();
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
    const { entries, next, empty } = readEntries(this.#options.directory, this.#staging);
    this.#entries = entries;
    this.#next = next;
    this.stored_seq = Math.max(0, ...entries.map((entry) => (entry.part === undefined ? 0 : lastOf(entry))));
    this.#tryDisk(() => {
      this.#startSegment(next);
      for (const path of empty) rmSync(path, { force: true });
    });
    this.#enforceBounds();
  }

  #removePart(part: LogPart | undefined): void {
    part?.remove();
    if (part instanceof StagedPart) this.#staging?.removed(part);
  }

  #flush(): void {
    if (this.#unflushed.length === 0) return;
    const lines = this.#unflushed;
    this.#unflushed = [];
    this.#unflushed_bytes = 0;
    if (!this.#stage(lines) && !this.#tryDisk(() => this.#writeToDisk(lines))) keepInMemory(this.#entries, lines);
    this.#enforceBounds();
  }

  /** Writes lines to a file in memory if the link is up. Returns false if they must be written to the disk. */
  #stage(lines: LogLine[]): boolean {
    const staging = this.#staging;
    if (staging === undefined || !this.#linked) return false;
    if (this.#bytesOf("staged") >= STAGED_BYTES_MAX) this.#tryDisk(() => this.#moveToDisk(() => true));
    const [first, last] = [lines[0]!.seq, lines.at(-1)!.seq];
    // The name of a segment on the disk reserves the numbers, so that they are not used again after a power loss.
    const is_reserved = this.#writer !== undefined && first >= this.#writer.first && last < this.#writer.first + SEGMENT_NUMBERS;
    if (!is_reserved && !this.#tryDisk(() => this.#startSegment(first))) return false;
    try {
      const part = staging.append(lines);
      if (part !== undefined) this.#entries.push({ part });
      return true;
    } catch {
      // The memory is full.
      return false;
    }
  }

  #writeToDisk(lines: LogLine[]): void {
    this.#moveToDisk(() => true);
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

  /** Writes the records that are in memory because the disk failed, and those of the staged parts that `which` selects. */
  #moveToDisk(which: (part: StagedPart) => boolean): void {
    for (const [index, { part }] of this.#entries.entries()) {
      if (!(part instanceof MemoryPart) && !(part instanceof StagedPart && which(part))) continue;
      // The new file may replace the current, empty segment.
      if (part.first === this.#writer?.first) this.#closeWriter();
      this.#entries[index] = { part: writePart(this.#options.directory, part) };
      if (part instanceof StagedPart) this.#removePart(part);
    }
  }

  #closeWriter(): void {
    this.#writer?.close();
    this.#writer = undefined;
  }

  #enforceBounds(): void {
    this.#enforce("disk", this.#options.bytes_max);
    this.#enforce("memory", MEMORY_BYTES_MAX);
  }

  #bytesOf(kind: LogPart["kind"]): number {
    return this.#entries.reduce((sum, { part }) => sum + (part?.kind === kind ? part.bytes : 0), 0);
  }

  #enforce(kind: LogPart["kind"], bytes_max: number): void {
    let bytes = this.#bytesOf(kind);
    let changed = false;
    while (bytes > bytes_max) {
      const index = this.#entries.findIndex(({ part }) => part?.kind === kind);
      const part = this.#entries[index]?.part;
      if (part === undefined || index === this.#entries.length - 1) break;
      bytes -= part.bytes;
      this.#removePart(part);
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
   * Continues after the server's number, which is higher than any used here: this disk is an old copy. Replaces the records of this copy by
   * one gap, since they cannot be distinguished from newer ones.
   */
  #startBehind(acked: number): void {
    this.#flush();
    let count = 0;
    for (const { part, gap } of this.#entries) {
      count += gap?.count ?? part!.last - part!.first + 1;
      this.#removePart(part);
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
