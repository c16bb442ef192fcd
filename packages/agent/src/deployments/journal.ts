import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";
import { failpoint, tornFailpoint } from "@roamfleet/clock/failpoint";
import { makeDirectory, syncDirectory, writeAtomically } from "../disk/write-atomically.ts";

/** The file is written anew, with the newest record of each key only, when it has grown past this. */
const COMPACT_BYTES = 512 * 1024;
const RESERVE_BYTES = 256 * 1024;

/**
 * What must survive the agent: the newest record of each key. A record is one line with its checksum, appended and
 * fsynced before the side effect that it announces. Since each record is whole, a torn last line or a damaged one
 * costs that record only.
 */
export class Journal<T> {
  readonly #file: string;
  readonly #records: Map<string, T>;
  readonly #key: (record: T) => string;
  /** Its failpoints begin with this. */
  readonly #name: string;
  #handle: number;
  #bytes: number;
  readonly #reserve: string;

  private constructor(file: string, records: Map<string, T>, key: (record: T) => string) {
    this.#file = file;
    this.#records = records;
    this.#key = key;
    this.#name = path.basename(file, path.extname(file));
    this.#handle = openPrivately(file);
    this.#bytes = fs.fstatSync(this.#handle).size;
    this.#reserve = `${file}.reserve`;
    this.#setAside();
  }

  /** Reads what an earlier agent wrote. Answers with the number of lines that could not be read. */
  static open<T>(file: string, key: (record: T) => string): { journal: Journal<T>; damaged: number } {
    makeDirectory(path.dirname(file));
    const bytes = fs.existsSync(file) ? fs.readFileSync(file) : Buffer.alloc(0);
    const whole = bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1);
    // A torn tail must not run into the next record.
    if (whole.length < bytes.length) fs.truncateSync(file, whole.length);
    const { records, damaged } = readRecords(whole.toString("utf8"), key);
    const journal = new Journal(file, records, key);
    syncDirectory(path.dirname(file));
    return { journal, damaged };
  }

  /** What is in the file now, of which nothing is changed: for another process than the one that writes it. */
  static read<T>(file: string, key: (record: T) => string): ReadonlyMap<string, T> {
    return readRecords(fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "", key).records;
  }

  get records(): ReadonlyMap<string, T> {
    return this.#records;
  }

  /** Durable when it returns. Throws, and changes nothing, when the disk does not take it. */
  append(record: T): void {
    const line = encodeLine(record);
    try {
      this.#write(line);
    } catch (error) {
      if (!fs.existsSync(this.#reserve)) throw error;
      // The disk is full: how a deployment ends on it must still be written down.
      fs.rmSync(this.#reserve, { force: true });
      this.#write(line);
    }
    this.#bytes += Buffer.byteLength(line);
    this.#records.set(this.#key(record), record);
    if (this.#bytes > COMPACT_BYTES) this.#compact();
  }

  #write(line: string): void {
    try {
      failpoint(`${this.#name}:before-append`, "journal");
      tornFailpoint(`${this.#name}:torn-append`, "journal", () => fs.writeSync(this.#handle, line.slice(0, line.length / 2)));
      fs.writeFileSync(this.#handle, line);
      failpoint(`${this.#name}:before-sync`, "journal");
      fs.fsyncSync(this.#handle);
      failpoint(`${this.#name}:after-append`, "journal");
    } catch (error) {
      fs.ftruncateSync(this.#handle, this.#bytes);
      throw error;
    }
  }

  /** Room set aside for the last lines on a full disk. */
  #setAside(): void {
    try {
      if (fs.statSync(this.#reserve, { throwIfNoEntry: false })?.size !== RESERVE_BYTES)
        fs.writeFileSync(this.#reserve, Buffer.alloc(RESERVE_BYTES, 1), { flush: true });
    } catch {
      // The disk is full already: nothing to set aside.
    }
  }

  #compact(): void {
    const content = [...this.#records.values()].map(encodeLine).join("");
    // As long as the newest records alone are this large there is nothing to win.
    if (content.length > this.#bytes / 2) return;
    try {
      writeAtomically(this.#file, content);
    } catch {
      // No room for a second copy: the long one is as good.
      return;
    }
    fs.closeSync(this.#handle);
    this.#handle = openPrivately(this.#file);
    this.#bytes = Buffer.byteLength(content);
  }

  close(): void {
    fs.closeSync(this.#handle);
  }
}

/** For appending, and for this user only, whatever mode an earlier agent gave it: a release's environment is in it. */
function openPrivately(file: string): number {
  const handle = fs.openSync(file, "a", 0o600);
  fs.fchmodSync(handle, 0o600);
  return handle;
}

function encodeLine(record: unknown): string {
  // A login for a registry is told with each desired state, and never written down.
  const json = JSON.stringify(record, (key, value: unknown) => (key === "registry_auth" ? undefined : value));
  return `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`;
}

function readRecords<T>(lines: string, key: (record: T) => string): { records: Map<string, T>; damaged: number } {
  const records = new Map<string, T>();
  let damaged = 0;
  for (const line of lines.split("\n")) {
    if (line === "") continue;
    const json = line.slice(9);
    if (line[8] !== " " || crc32(json).toString(16).padStart(8, "0") !== line.slice(0, 8)) {
      damaged += 1;
      continue;
    }
    const record = JSON.parse(json) as T;
    records.set(key(record), record);
  }
  return { records, damaged };
}
