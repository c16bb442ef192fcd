import { closeSync, openSync, readdirSync, readSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { isMissing } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";
import { splitLines } from "../spawn-child.ts";

/** Maximum bytes and lines of one batch. A source that has room for a burst may write this much without losing a record. */
const BATCH_BYTES_MAX = 64 * 1024;
const BATCH_LINES_MAX = 500;
const NEWLINE = 0x0a;

/** A byte of a stream: an offset in one of its numbered files. */
interface Place {
  file: number;
  offset: number;
}

/** The part of a stream that the agent was about to log when it stored this record. After that, an empty part at the same end. */
export interface StreamPosition {
  /** Start and end of the part. */
  from: Place;
  to: Place;
  /** Number of lines in the part, and the log's number of the first one. */
  lines: number;
  seq: number | null;
}

export interface Line {
  text: string;
  missing: number;
}

export interface Batch {
  lines: Line[];
  from: Place;
  to: Place;
}

/** Reads one stream of a program, which consists of numbered files: NAME.1, NAME.2, … Keeps no lines in memory. */
export class OutputStream {
  readonly #path: string;
  readonly #splitter = splitLines((text, missing) => this.#line(text, missing));
  #lines: Line[] = [];
  /** Number of lines, from the start position on, that are already in the log. */
  #skip = 0;
  /** End of the last complete line. */
  #done: Place = { file: 1, offset: 0 };
  /** End of the bytes that were read. */
  #cursor: Place = { file: 1, offset: 0 };
  /** Called with the number of files that were deleted before they were read. */
  readonly #on_lost: (files: number) => void;

  /**
   * `path`: the path of the files without their numbers. `stored`: the stored position. `stored_seq`: the highest number in the log at the
   * start of this agent. Both together show how many lines of the last part the log contains.
   */
  constructor(path: string, stored: StreamPosition | undefined, stored_seq: number, on_lost: (files: number) => void) {
    this.#path = path;
    this.#on_lost = on_lost;
    if (stored === undefined) return;
    const written = stored.seq === null ? stored.lines : Math.max(0, stored_seq - stored.seq + 1);
    this.#done = written >= stored.lines ? stored.to : stored.from;
    this.#skip = written >= stored.lines ? 0 : written;
    this.#cursor = { ...this.#done };
  }

  #line(text: string, missing: number): void {
    if (this.#skip > 0) this.#skip -= 1;
    else this.#lines.push({ text, missing });
  }

  /** Returns the next complete lines; undefined if there are none yet. With `at_end`, the last line needs no line break. */
  next(at_end: boolean): Batch | undefined {
    let from = this.#done;
    for (let bytes = this.#read(); bytes !== undefined; bytes = this.#read()) {
      const base = this.#cursor.offset;
      let start = 0;
      for (let end = bytes.indexOf(NEWLINE); end >= 0 && this.#lines.length < BATCH_LINES_MAX; end = bytes.indexOf(NEWLINE, start)) {
        this.#splitter.push(bytes.subarray(start, end + 1));
        start = end + 1;
        this.#done = { file: this.#cursor.file, offset: base + start };
        if (this.#lines.length === 0) from = this.#done;
      }
      const is_full = this.#lines.length >= BATCH_LINES_MAX;
      if (!is_full) this.#splitter.push(bytes.subarray(start));
      this.#cursor.offset = base + (is_full ? start : bytes.length);
      if (this.#lines.length > 0) return this.#take(from);
    }
    if (!at_end) return undefined;
    this.#splitter.end();
    this.#done = { ...this.#cursor };
    return this.#lines.length > 0 ? this.#take(from) : undefined;
  }

  #take(from: Place): Batch {
    const lines = this.#lines;
    this.#lines = [];
    return { lines, from, to: this.#done };
  }

  /** Reads the bytes after the cursor; undefined if there are none. Moves the cursor to the next file at the end of a complete one. */
  #read(): Buffer | undefined {
    for (;;) {
      // A file is complete once the next one exists. So look for the next one before reading this one.
      const next = this.#files().find((file) => file > this.#cursor.file);
      const bytes = readAt(`${this.#path}.${this.#cursor.file}`, this.#cursor.offset);
      if (bytes !== undefined && bytes.length > 0) return bytes;
      if (next === undefined) return undefined;
      const lost = next - this.#cursor.file - (bytes === undefined ? 0 : 1);
      if (lost > 0) this.#skipTo(next, lost);
      else this.#cursor = { file: next, offset: 0 };
    }
  }

  #skipTo(file: number, lost: number): void {
    this.#on_lost(lost);
    this.#splitter.end();
    this.#skip = 0;
    this.#cursor = { file, offset: 0 };
    this.#done = { file, offset: 0 };
  }

  #files(): number[] {
    const prefix = `${basename(this.#path)}.`;
    return entriesOf(dirname(this.#path))
      .flatMap((name) => (name.startsWith(prefix) ? [Number(name.slice(prefix.length))] : []))
      .toSorted((a, b) => a - b);
  }

  /** Deletes the files that were read completely. */
  prune(): void {
    for (const file of this.#files())
      if (file < this.#done.file) rmSync(join(dirname(this.#path), `${basename(this.#path)}.${file}`), { force: true });
  }
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Returns some bytes of a file; undefined if the file does not exist. */
function readAt(path: string, offset: number): Buffer | undefined {
  let handle: number;
  try {
    handle = openSync(path, "r");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const bytes = Buffer.allocUnsafe(BATCH_BYTES_MAX);
    return bytes.subarray(0, readSync(handle, bytes, 0, bytes.length, offset));
  } finally {
    closeSync(handle);
  }
}

/** Reads a stored position; undefined if it is damaged. */
export function readPosition(value: unknown): StreamPosition | undefined {
  const { from, to, lines, seq } = fieldsOf(value);
  if (!isPlace(from) || !isPlace(to) || !Number.isSafeInteger(lines)) return undefined;
  return { from, to, lines: Number(lines), seq: Number.isSafeInteger(seq) ? Number(seq) : null };
}

function isPlace(value: unknown): value is Place {
  const { file, offset } = fieldsOf(value);
  return Number.isSafeInteger(file) && Number(file) > 0 && Number.isSafeInteger(offset) && Number(offset) >= 0;
}
