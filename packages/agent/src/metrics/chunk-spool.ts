import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { makeDirectory, readIfExists, writeAtomically } from "../disk/write-atomically.ts";

/** Maximum bytes of waiting chunks: more than two days of system values. The oldest chunks are dropped first. */
export const CHUNK_SPOOL_BYTES_MAX = 4 * 1024 * 1024;
const SPOOL_ID_BYTES = 8;
/** Start of the agent's process, spool id and number of the chunk, in the order of their creation. */
const FILE = /^(\d{8})-([0-9a-f]{16})-(\d{10})\.chunk$/;
const fileName = (start: number, spool_id: string, seq: number): string =>
  `${String(start).padStart(8, "0")}-${spool_id}-${String(seq).padStart(10, "0")}.chunk`;

/** A chunk that the server has not acknowledged yet. */
export interface WaitingChunk {
  spool_id: string;
  /** Number within the spool. */
  seq: number;
  chunk: Buffer;
}

interface Entry {
  spool_id: string;
  seq: number;
  bytes: number;
  file: string;
  /** Present if the chunk could not be written to disk. */
  chunk?: Buffer;
}

interface ChunkSpoolOptions {
  directory: string;
  randomBytes: (count: number) => Uint8Array;
  /** Called with the reason when writes to the disk begin to fail, and without one when they succeed again. */
  on_disk: (reason: string | undefined) => void;
}

/**
 * A queue of encoded samples on disk, one file for each. What the server has not acknowledged survives the agent and a loss of power. Each
 * start of the agent uses a new spool id, so that the server never takes a new chunk for an old one, even after a restored backup.
 */
export class ChunkSpool {
  readonly #options: ChunkSpoolOptions;
  readonly #spool_id: string;
  readonly #start: number;
  readonly #entries: Entry[];
  #seq = 0;
  #is_failing = false;
  /** Chunks that were dropped because the spool was full, or could not be read. */
  dropped = 0;

  constructor(options: ChunkSpoolOptions) {
    this.#options = options;
    makeDirectory(options.directory);
    const files = readdirSync(options.directory).toSorted();
    this.#entries = files.flatMap((file) => entryOf(options.directory, file));
    this.#start = Number(FILE.exec(files.filter((file) => FILE.test(file)).at(-1) ?? "")?.[1] ?? 0) + 1;
    this.#spool_id = Buffer.from(options.randomBytes(SPOOL_ID_BYTES)).toString("hex");
  }

  /** Number of waiting chunks. */
  get size(): number {
    return this.#entries.length;
  }

  /** Appends a chunk. If it cannot be written to disk, it is kept in memory. */
  add(chunk: Buffer): void {
    this.#seq += 1;
    const file = join(this.#options.directory, fileName(this.#start, this.#spool_id, this.#seq));
    const entry: Entry = { spool_id: this.#spool_id, seq: this.#seq, bytes: chunk.length, file };
    try {
      writeAtomically(file, chunk);
      if (this.#is_failing) this.#options.on_disk(undefined);
      this.#is_failing = false;
    } catch (error) {
      if (!this.#is_failing) this.#options.on_disk((error as Error).message);
      this.#is_failing = true;
      entry.chunk = chunk;
    }
    this.#entries.push(entry);
    let bytes = this.#entries.reduce((sum, one) => sum + one.bytes, 0);
    while (bytes > CHUNK_SPOOL_BYTES_MAX && this.#entries.length > 1) {
      bytes -= this.#entries[0]?.bytes ?? 0;
      this.#drop();
    }
  }

  /** Returns the oldest chunk; undefined if none waits. */
  first(): WaitingChunk | undefined {
    for (let entry = this.#entries[0]; entry !== undefined; entry = this.#entries[0]) {
      const chunk = entry.chunk ?? readable(entry.file);
      if (chunk !== undefined) return { spool_id: entry.spool_id, seq: entry.seq, chunk };
      this.#drop();
    }
    return undefined;
  }

  /** Removes the oldest chunk if it has this number. A file that returns after a loss of power is sent again, and stored only once. */
  acknowledge(spool_id: string, seq: number): void {
    const [entry] = this.#entries;
    if (entry?.spool_id === spool_id && entry.seq === seq) this.#remove();
  }

  #drop(): void {
    this.dropped += 1;
    this.#remove();
  }

  #remove(): void {
    const entry = this.#entries.shift();
    if (entry !== undefined) rmSync(entry.file, { force: true });
  }
}

function readable(file: string): Buffer | undefined {
  try {
    return readIfExists(file);
  } catch {
    return undefined;
  }
}

function entryOf(directory: string, name: string): Entry[] {
  const [, , spool_id, seq] = FILE.exec(name) ?? [];
  const file = join(directory, name);
  if (spool_id === undefined || seq === undefined) {
    // A temporary file of a write that was interrupted.
    if (name.endsWith(".tmp")) rmSync(file, { force: true });
    return [];
  }
  return [{ spool_id, seq: Number(seq), bytes: statSync(file).size, file }];
}
