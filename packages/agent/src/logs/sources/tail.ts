import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, type Stats, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fieldsOf } from "../../json.ts";

/**
 * Maximum number of first bytes by which a file is recognized. The inode is not enough: it may be reused, or the file may be truncated and
 * rewritten.
 */
const HEAD_BYTES_MAX = 256;
/** Maximum bytes that are read at a time. A longer line is truncated to this length. */
export const LINE_BYTES_MAX = 64 * 1024;
const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** The reading position of a file, as stored on disk. */
export interface TailState {
  dev: number;
  ino: number;
  offset: number;
  /** True if the position is in the middle of an overlong line, whose rest is skipped. */
  skipping: boolean;
  /** The first bytes of the file in base64, by which it is recognized. */
  head: string;
}

export interface TailLine {
  text: string;
  cut: boolean;
}

/** Reads the lines of one open file as they are appended. Keeps no lines in memory. */
export class Tail {
  /** Device of the open file. With the inode it identifies the file, even after the file was renamed. */
  readonly dev: number;
  readonly ino: number;
  /** Birth time of the file in milliseconds since 1970. It distinguishes the file from a later one with the same inode. */
  readonly birth_ms: number;
  readonly #handle: number;
  #offset: number;
  #skipping: boolean;
  #head: Buffer;
  /** Size of the file at the last read that found no complete line. Until the file grows, it is not read again. */
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

  /** Returns whether the file was truncated since it was last read: it is shorter than the offset, or its first bytes have changed. */
  wasCut(stat: Stats): boolean {
    return stat.size < this.#offset || !readHead(this.#handle, this.#head.length).equals(this.#head);
  }

  /** Starts again from the beginning of the file. */
  restart(): void {
    this.#offset = 0;
    this.#skipping = false;
    this.#head = Buffer.alloc(0);
    this.#looked_at = -1;
  }

  /**
   * Reads the next appended lines, at most LINE_BYTES_MAX, and passes each complete line to `take`. Empty lines are skipped. If `take`
   * returns false, the line is passed again at the next read. Returns the number of bytes consumed, 0 if there was no complete line.
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

  /** Reads the text after the last newline, if no process will write to the file any more. */
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

/** Opens a regular file. Returns undefined if it is absent, not readable, or not regular: opening a pipe would block. */
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

/**
 * Returns the stat of a path. Returns `gone` if the path does not exist. Returns `unseen` if that is unknown: access is forbidden, the path
 * is a symlink loop, or the disk fails. Never throws.
 */
export function statEntry(path: string): Stats | "gone" | "unseen" {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? "gone";
  } catch {
    return "unseen";
  }
}

/** Like `statEntry`, but returns undefined if there is no stat for any reason. */
export function statOf(path: string): Stats | undefined {
  const seen = statEntry(path);
  return typeof seen === "string" ? undefined : seen;
}

function lineText(bytes: Buffer): string {
  const end = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length;
  return bytes.toString("utf8", 0, end);
}

export function isTailState(value: unknown): value is TailState {
  const { dev, ino, offset, skipping, head } = fieldsOf(value);
  return (
    Number.isSafeInteger(dev) &&
    Number.isSafeInteger(ino) &&
    Number.isSafeInteger(offset) &&
    Number(offset) >= 0 &&
    typeof skipping === "boolean" &&
    typeof head === "string"
  );
}

/** Names of files that were compressed after rotation. Reading cannot resume in the middle of them. */
export const PACKED = /\.(?:gz|xz|zst|bz2|lz4|Z|zip)$/;
/** Maximum number of files in a log's directory that are examined. */
const SIBLINGS_MAX = 200;

interface Sibling {
  path: string;
  mtime_ms: number;
}

/** Returns the rotated files of a log (such as `app.log.1` or `app.log-20300101`), oldest first. */
export function rotatedFiles(path: string): Sibling[] {
  const [directory, name] = [dirname(path), basename(path)];
  let entries: string[];
  try {
    entries = readdirSync(directory);
  } catch {
    return [];
  }
  const stem = name.replace(/\.[^.]*$/, "");
  const isRotated = (entry: string): boolean =>
    entry !== name &&
    !PACKED.test(entry) &&
    (entry.startsWith(`${name}.`) || entry.startsWith(`${name}-`) || entry.startsWith(`${stem}-`) || entry.startsWith(`${stem}.`));
  return entries
    .filter(isRotated)
    .slice(0, SIBLINGS_MAX)
    .flatMap((entry) => {
      const found = join(directory, entry);
      const stat = statOf(found);
      return stat?.isFile() === true ? [{ path: found, mtime_ms: stat.mtimeMs }] : [];
    })
    .toSorted((a, b) => a.mtime_ms - b.mtime_ms);
}

/**
 * Opens the file at the path at its saved position. Returns undefined if that file is neither the file of the saved state nor, with `copy`,
 * a copy of that file.
 */
export function reopen(path: string, state: TailState, how: "same_file" | "copy"): Tail | undefined {
  const opened = openRegular(path);
  if (opened === undefined) return undefined;
  const { handle, stat } = opened;
  const head = Buffer.from(state.head, "base64");
  const is_same = stat.dev === state.dev && stat.ino === state.ino;
  try {
    if (
      (is_same || how === "copy") &&
      stat.size >= state.offset &&
      head.length > 0 === state.offset > 0 &&
      readHead(handle, head.length).equals(head)
    )
      return new Tail(handle, stat, { offset: state.offset, skipping: state.skipping, head });
  } catch {
    // The first bytes cannot be read from the disk.
  }
  closeSync(handle);
  return undefined;
}

/** Finds the file to which a log was renamed or copied, and opens it at the log's saved position. */
export function findRotated(path: string, state: TailState): { tail: Tail; mtime_ms: number } | undefined {
  const siblings = rotatedFiles(path).toReversed();
  for (const how of ["same_file", "copy"] as const) {
    // Nothing of the log was read yet, so a copy of it cannot be recognized by its first bytes.
    if (how === "copy" && state.offset === 0) continue;
    for (const sibling of siblings) {
      const tail = reopen(sibling.path, state, how);
      if (tail !== undefined) return { tail, mtime_ms: sibling.mtime_ms };
    }
  }
  return undefined;
}
