import { closeSync, constants, fsyncSync, ftruncateSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { failpoint, tornFailpoint } from "@roamfleet/clock/failpoint";
import { lineSeq } from "../logs/record.ts";
import { syncDirectory, writeWhole, checksum } from "../disk/write-atomically.ts";

const NUMBER_DIGITS = 16;
const NEWLINE = 0x0a;

interface SegmentName {
  path: string;
  /** Number of the first line. */
  first: number;
  /** Number of the last line; undefined while the segment is not complete. */
  last: number | undefined;
}

const digits = (number: number): string => String(number).padStart(NUMBER_DIGITS, "0");

export const segmentPath = (directory: string, first: number, last?: number): string =>
  join(directory, `${digits(first)}${last === undefined ? "" : `-${digits(last)}`}.jsonl`);

/** Returns the segments of a directory, oldest first. */
export function listSegments(directory: string): SegmentName[] {
  const segments: SegmentName[] = [];
  for (const name of readdirSync(directory)) {
    const match = /^(\d{16})(?:-(\d{16}))?\.jsonl$/.exec(name);
    if (match)
      segments.push({ path: join(directory, name), first: Number(match[1]), last: match[2] === undefined ? undefined : Number(match[2]) });
  }
  return segments.sort((a, b) => a.first - b.first);
}

/** Returns the complete lines of a file. Text after the last newline was torn by a power loss and is ignored. */
export function readWholeLines(path: string): string[] {
  const bytes = readFileSync(path);
  const end = bytes.lastIndexOf(NEWLINE);
  return end < 0 ? [] : bytes.toString("utf8", 0, end).split("\n");
}

/** An append-only file. Its name contains the number of its first line, and is durable before the first line is written. */
export class SegmentWriter {
  readonly path: string;
  readonly first: number;
  /** Prefix of this file's failpoint names: the name of its directory. */
  readonly #name: string;
  #handle: number | undefined;
  #bytes = 0;

  /** `durable`: whether the name must survive a power loss, unlike that of a file in memory. */
  constructor(directory: string, first: number, durable = true) {
    this.path = segmentPath(directory, first);
    this.first = first;
    this.#name = basename(directory);
    failpoint(`${this.#name}:before-segment`, "journal");
    // Use O_APPEND, so that writing after a torn line was truncated leaves no hole in the file.
    this.#handle = openSync(this.path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND, 0o600);
    try {
      if (durable) syncDirectory(directory);
    } catch (error) {
      this.close();
      throw error;
    }
    failpoint(`${this.#name}:after-segment`, "journal");
  }

  /** Size of the complete lines in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** False after a torn line could not be truncated. Then further lines must be written to another segment. */
  get usable(): boolean {
    return this.#handle !== undefined;
  }

  /** Writes all lines, or none if it throws. With `durably`, they are on disk when it returns. */
  append(lines: Uint8Array, durably = false): void {
    const handle = this.#open();
    try {
      failpoint(`${this.#name}:before-append`, "journal");
      tornFailpoint(`${this.#name}:torn-append`, "journal", () => writeWhole(handle, lines.subarray(0, lines.length / 2)));
      writeWhole(handle, lines);
      if (durably) fsyncSync(handle);
      failpoint(`${this.#name}:after-append`, "journal");
    } catch (error) {
      this.#cutBack(handle);
      throw error;
    }
    this.#bytes += lines.length;
  }

  sync(): void {
    fsyncSync(this.#open());
  }

  close(): void {
    if (this.#handle === undefined) return;
    closeSync(this.#handle);
    this.#handle = undefined;
  }

  remove(): void {
    this.close();
    rmSync(this.path, { force: true });
  }

  #open(): number {
    if (this.#handle === undefined) throw new Error(`${this.path} is closed`);
    return this.#handle;
  }

  /** Removes a partly written line, so that the next one can be appended. Truncating works even on a full disk. */
  #cutBack(handle: number): void {
    try {
      ftruncateSync(handle, this.#bytes);
    } catch {
      // Truncating has failed, too. So close the segment; readers skip the torn line.
      this.close();
    }
  }
}

/** Returns the number of the last record in a segment that its writer did not complete. `numbers`: maximum numbers of one segment. */
export function lastSeqOf(path: string, first: number, numbers: number): number {
  let last = first - 1;
  for (const line of readWholeLines(path)) {
    const text = openLine(line);
    const seq = text === undefined ? undefined : lineSeq(text);
    if (seq !== undefined && seq > last && seq < first + numbers) last = seq;
  }
  return last;
}

const SEAL_CHARACTERS = 9;

/**
 * Encodes a line of a spool file with a checksum at its end. A damaged line may still be valid JSON. If it were sent, the server would
 * close the link each time the robot connects.
 */
export const sealLine = (text: string): string => `${text} ${checksum(text)}\n`;

/** Decodes a line that `sealLine` encoded. Returns its text without the newline; undefined if the line is damaged. */
export function openLine(line: string): string | undefined {
  const text = line.slice(0, -SEAL_CHARACTERS);
  return line === `${text} ${checksum(text)}` ? text : undefined;
}
