import fs from "node:fs";
import path from "node:path";
import { failpoint, tornFailpoint } from "@roamfleet/clock/failpoint";
import { makeDirectory, syncDirectory, writeAtomically, checksum } from "../disk/write-atomically.ts";

/** Maximum size of the file. Above it, the file is compacted to the newest record of each key. */
const COMPACT_BYTES = 512 * 1024;
const RESERVE_BYTES = 256 * 1024;

/**
 * Stores the state of one part of the agent on disk: the newest record of each key. Each record is one line with a checksum, appended and
 * fsynced before the side effect that it announces. Records do not depend on each other, so a torn or damaged line loses only its own
 * record.
 */
export class Journal<T> {
  readonly #file: string;
  readonly #records: Map<string, T>;
  readonly #key: (record: T) => string;
  /** Prefix of the failpoint names of this journal. */
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

  /** Opens the journal, or creates it. `damaged` is the number of unreadable lines. */
  static open<T>(file: string, key: (record: T) => string): { journal: Journal<T>; damaged: number } {
    makeDirectory(path.dirname(file));
    const bytes = fs.existsSync(file) ? fs.readFileSync(file) : Buffer.alloc(0);
    const whole = bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1);
    // Remove a torn last line: the next record must not be appended to it.
    if (whole.length < bytes.length) fs.truncateSync(file, whole.length);
    const { records, damaged } = readRecords(whole.toString("utf8"), key);
    const journal = new Journal(file, records, key);
    syncDirectory(path.dirname(file));
    return { journal, damaged };
  }

  /** Reads the file without changing it, for a process other than its writer. */
  static read<T>(file: string, key: (record: T) => string): ReadonlyMap<string, T> {
    return readRecords(fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "", key).records;
  }

  get records(): ReadonlyMap<string, T> {
    return this.#records;
  }

  /** Appends a record, which is durable when this returns. If the write fails, throws and changes nothing. */
  append(record: T): void {
    const line = encodeLine(record);
    try {
      this.#write(line);
    } catch (error) {
      if (!fs.existsSync(this.#reserve)) throw error;
      // The disk is full. Delete the reserve file, so that there is room to record how a deployment ends.
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

  /** Creates the reserve file. On a full disk, deleting it makes room for the last records. */
  #setAside(): void {
    try {
      if (fs.statSync(this.#reserve, { throwIfNoEntry: false })?.size !== RESERVE_BYTES)
        fs.writeFileSync(this.#reserve, Buffer.alloc(RESERVE_BYTES, 1), { mode: 0o600, flush: true });
    } catch {
      // The disk is already full, so there is no reserve.
    }
  }

  #compact(): void {
    const content = [...this.#records.values()].map(encodeLine).join("");
    // Compact only if that at least halves the file.
    if (content.length > this.#bytes / 2) return;
    try {
      writeAtomically(this.#file, content);
    } catch {
      // The disk has no room for a second copy. The uncompacted file stays valid.
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

/**
 * Opens the file for appending and makes it readable by this user only, even if its mode was different: it contains the environment
 * variables of releases.
 */
function openPrivately(file: string): number {
  const handle = fs.openSync(file, "a", 0o600);
  fs.fchmodSync(handle, 0o600);
  return handle;
}

function encodeLine(record: unknown): string {
  // Logins for registries come with each desired state and are never written to disk.
  const json = JSON.stringify(record, (key, value: unknown) => (key === "registry_auth" ? undefined : value));
  return `${checksum(json)} ${json}\n`;
}

function readRecords<T>(lines: string, key: (record: T) => string): { records: Map<string, T>; damaged: number } {
  const records = new Map<string, T>();
  let damaged = 0;
  for (const line of lines.split("\n")) {
    if (line === "") continue;
    const json = line.slice(9);
    if (line[8] !== " " || checksum(json) !== line.slice(0, 8)) {
      damaged += 1;
      continue;
    }
    const record = JSON.parse(json) as T;
    records.set(key(record), record);
  }
  return { records, damaged };
}
