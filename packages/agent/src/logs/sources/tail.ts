import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, type Stats, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fieldsOf } from "../../json.ts";

/** Maximum first bytes by which a file is recognized: its inode may be reused, and its content may be truncated and rewritten. */
const HEAD_BYTES_MAX = 256;
/** Maximum bytes read at a time. A longer line is truncated there, and its rest is skipped. */
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
  /** The first bytes, base64. */
  head: string;
}

export interface TailLine {
  text: string;
  cut: boolean;
}

/** Reads the lines of one open file as they are appended. Keeps no lines in memory. */
export class Tail {
  /** Identity of the open file, whatever its path is now. */
  readonly dev: number;
  readonly ino: number;
  /** Birth time of the file, milliseconds since 1970: its inode may be reused later. */
  readonly birth_ms: number;
  readonly #handle: number;
  #offset: number;
  #skipping: boolean;
  #head: Buffer;
  /** File size at the last read that found no complete line; the file is not read again until it grows. */
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
   * Reads appended complete lines, at most LINE_BYTES_MAX at a time; empty ones are skipped. `take` returns whether it accepts the line: a refused
   * line is passed again later. Returns the number of bytes consumed, 0 without a complete line.
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

  /** Reads the text after the last newline, for a file to which no process writes any more. */
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

/** Opens a regular file. Returns undefined if it is absent, forbidden, or not regular (opening a pipe would block). */
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
 * Returns the stat of a path. `gone`: it does not exist. `unseen`: unknown, since it is forbidden, a symlink loop, or the disk fails. Never throws.
 */
export function statEntry(path: string): Stats | "gone" | "unseen" {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? "gone";
  } catch {
    return "unseen";
  }
}

/** Like `statEntry`, but returns undefined for everything that is not accessible. */
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

/** Files that were compressed after rotation. They cannot be read from a position in the middle. */
export const PACKED = /\.(?:gz|xz|zst|bz2|lz4|Z|zip)$/;
/** Maximum files beside a log that are examined. */
const SIBLINGS_MAX = 200;

interface Sibling {
  path: string;
  mtime_ms: number;
}

/** Returns the files that a log was renamed or copied to (`app.log.1`, `app.log-20300101`), oldest first. */
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
 * Opens the file of a saved state at its position. Returns undefined if the file at the path is not that file (or, for `copy`, a copy of
 * it).
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
    // The disk cannot read the file.
  }
  closeSync(handle);
  return undefined;
}

/** Finds the file to which the saved file was renamed or copied, and opens it at the saved position. */
export function findRotated(path: string, state: TailState): { tail: Tail; mtime_ms: number } | undefined {
  const siblings = rotatedFiles(path).toReversed();
  for (const how of ["same_file", "copy"] as const) {
    // Nothing was read of the file, so its copy cannot be recognized by its first bytes.
    if (how === "copy" && state.offset === 0) continue;
    for (const sibling of siblings) {
      const tail = reopen(sibling.path, state, how);
      if (tail !== undefined) return { tail, mtime_ms: sibling.mtime_ms };
    }
  }
  return undefined;
}
