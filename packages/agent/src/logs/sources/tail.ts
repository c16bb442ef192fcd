import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from "node:fs";

/** Bytes that tell a file from another one that got its inode, and a file that was emptied and filled again from the one of before. */
export const HEAD_BYTES_MAX = 256;
/** Read at a time; a line that is longer is cut there, and its rest is skipped. */
export const LINE_BYTES_MAX = 64 * 1024;
const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Where reading of a file stands, as it is kept on disk. */
export interface TailState {
  dev: number;
  ino: number;
  /** Where the next line begins. */
  offset: number;
  /** In the middle of a line that was too long: up to its end nothing is told. */
  skipping: boolean;
  /** The first bytes, base64. */
  head: string;
}

export interface TailLine {
  text: string;
  /** The line went on behind it. */
  cut: boolean;
}

/** One open file that lines are read from as they are appended. It keeps nothing of them in memory. */
export class Tail {
  /** Of the file that it reads, wherever that is now. */
  readonly dev: number;
  readonly ino: number;
  /** When the file was made, milliseconds since 1970: its inode may be another file's later. */
  readonly birth_ms: number;
  readonly #handle: number;
  #offset: number;
  #skipping: boolean;
  #head: Buffer;
  /** Up to here there was no whole line. */
  #looked_at = -1;

  constructor(handle: number, stat: Stats, from: { offset: number; skipping?: boolean; head?: Buffer }) {
    this.#handle = handle;
    this.dev = stat.dev;
    this.ino = stat.ino;
    this.birth_ms = stat.birthtimeMs;
    this.#offset = from.offset;
    this.#skipping = from.skipping ?? false;
    this.#head = from.head ?? readHead(handle, Math.min(HEAD_BYTES_MAX, from.offset));
  }

  get state(): TailState {
    const { dev, ino } = this;
    return { dev, ino, offset: this.#offset, skipping: this.#skipping, head: this.#head.toString("base64") };
  }

  get offset(): number {
    return this.#offset;
  }

  get head(): Buffer {
    return this.#head;
  }

  stat(): Stats {
    return fstatSync(this.#handle);
  }

  /** Whether the file was emptied since: it is shorter than what was read, or begins otherwise. */
  wasCut(stat: Stats): boolean {
    return stat.size < this.#offset || !readHead(this.#handle, this.#head.length).equals(this.#head);
  }

  /** Begins anew with the same file. */
  restart(): void {
    this.#offset = 0;
    this.#skipping = false;
    this.#head = Buffer.alloc(0);
    this.#looked_at = -1;
  }

  /**
   * Whole lines that were appended, one LINE_BYTES_MAX at a time; empty ones are left out. `take` answers whether it takes the line: one that it refuses
   * comes again. Answers how many bytes it went on, 0 when there was no whole line.
   */
  read(size: number, take: (line: TailLine) => boolean): number {
    if (size <= this.#offset || size === this.#looked_at) return 0;
    const bytes = Buffer.allocUnsafe(Math.min(LINE_BYTES_MAX, size - this.#offset));
    const chunk = bytes.subarray(0, readSync(this.#handle, bytes, 0, bytes.length, this.#offset));
    const from = this.#offset;
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      if (!this.#skipping && !take({ text: lineText(chunk.subarray(start, end)), cut: false })) return this.#advance(start);
      this.#skipping = false;
      start = end + 1;
    }
    if (start === 0 && chunk.length === LINE_BYTES_MAX) {
      if (!this.#skipping && !take({ text: lineText(chunk), cut: true })) return 0;
      this.#skipping = true;
      start = chunk.length;
    }
    this.#advance(start);
    if (this.#offset === from) this.#looked_at = size;
    return start;
  }

  /** What stands behind the last newline of a file that nobody writes to any more. */
  readRest(size: number, take: (line: TailLine) => boolean): void {
    const length = Math.min(LINE_BYTES_MAX, size - this.#offset);
    if (length <= 0 || this.#skipping) return;
    const bytes = Buffer.alloc(length);
    const text = lineText(bytes.subarray(0, readSync(this.#handle, bytes, 0, length, this.#offset)));
    if (take({ text, cut: false })) this.#advance(length);
  }

  close(): void {
    closeSync(this.#handle);
  }

  #advance(bytes: number): number {
    this.#offset += bytes;
    if (this.#head.length < HEAD_BYTES_MAX && bytes > 0) this.#head = readHead(this.#handle, Math.min(HEAD_BYTES_MAX, this.#offset));
    return bytes;
  }
}

export function readHead(handle: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, length === 0 ? 0 : readSync(handle, bytes, 0, length, 0));
}

/** A regular file's handle; undefined when it is gone, forbidden, or no regular file: a pipe would wait for its writer. */
export function openRegular(path: string): { handle: number; stat: Stats } | undefined {
  let handle: number;
  try {
    handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  const stat = statOfOpen(handle);
  if (stat?.isFile() === true) return { handle, stat };
  closeSync(handle);
  return undefined;
}

function statOfOpen(handle: number): Stats | undefined {
  try {
    return fstatSync(handle);
  } catch {
    return undefined;
  }
}

/** What a path leads to. `gone`: to nothing; `unseen`: nobody can tell, as it is forbidden, leads in a circle, or the disk fails. Never throws. */
export function lookAt(path: string): Stats | "gone" | "unseen" {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? "gone";
  } catch {
    return "unseen";
  }
}

/** The same, undefined for all that cannot be seen. */
export function statOf(path: string): Stats | undefined {
  const seen = lookAt(path);
  return typeof seen === "string" ? undefined : seen;
}

function lineText(bytes: Buffer): string {
  const end = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length;
  return bytes.toString("utf8", 0, end);
}

export function isTailState(value: unknown): value is TailState {
  if (typeof value !== "object" || value === null) return false;
  const { dev, ino, offset, skipping, head } = value as Partial<TailState>;
  return (
    Number.isSafeInteger(dev) &&
    Number.isSafeInteger(ino) &&
    Number.isSafeInteger(offset) &&
    offset! >= 0 &&
    typeof skipping === "boolean" &&
    typeof head === "string"
  );
}
