import { randomBytes } from "node:crypto";
import type { S3Object, S3Store } from "./s3-store.ts";

const MIB = 1024 * 1024;
/** Every segment but the last is at least so long: S3 wants parts of 5 MiB or more, and each costs a request or three. */
const SEGMENT_BYTES = 8 * MIB;
/** S3 takes 10,000 parts; what is longer than so many segments has longer ones. */
const SEGMENTS_MAX = 9_000;
const SEGMENT_BYTES_MAX = 512 * MIB;
/** Segments of one upload that are on their way to the store. With the one that is being filled: 32 MiB of memory an upload. */
const SEGMENTS_IN_FLIGHT = 3;
const REMOVALS_IN_FLIGHT = 8;
const NAME = /^(\d{16})-(\d{1,16})-[0-9a-f]{16}$/;

/** A stretch of an upload, an object of its own that is never written twice. */
export interface Segment {
  key: string;
  /** Position of its first byte in the upload. */
  start: number;
  /** Position after its last byte. */
  end: number;
}

/** How long the segments of an upload are that may have so many bytes. */
export function segmentBytes(bytes: number): number {
  const needed = Math.ceil(bytes / SEGMENTS_MAX / MIB) * MIB;
  return Math.min(SEGMENT_BYTES_MAX, Math.max(SEGMENT_BYTES, needed));
}

/**
 * The upload that lies in objects of one directory: the segments that follow each other from its first byte on, of those
 * that begin at the same byte the longest. `strays` is everything else: what a longer one has replaced, and what lost its
 * beginning. Objects appear whole or not at all, so this is right after every crash.
 */
export function chainOf(objects: readonly S3Object[]): { chain: Segment[]; strays: string[] } {
  const longest = new Map<number, Segment>();
  for (const { key, size } of objects) {
    const [, start = "", end = ""] = NAME.exec(key.slice(key.lastIndexOf("/") + 1)) ?? [];
    const segment = { key, start: Number(start), end: Number(end) };
    if (end === "" || size === 0 || segment.end - segment.start !== size) continue;
    if (segment.end > (longest.get(segment.start)?.end ?? -1)) longest.set(segment.start, segment);
  }
  const chain: Segment[] = [];
  for (let next = longest.get(0); next !== undefined; next = longest.get(next.end)) chain.push(next);
  const kept = new Set(chain.map(({ key }) => key));
  return { chain, strays: objects.map(({ key }) => key).filter((key) => !kept.has(key)) };
}

export const bytesOf = (chain: readonly Segment[]): number => chain.at(-1)?.end ?? 0;

/** Runs the work for each, a few at a time; rejects with the first error when those under way have ended. */
export async function forEachOf<T>(items: readonly T[], at_once: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const failed: unknown[] = [];
  const run = async (): Promise<void> => {
    for (const item of left) {
      if (failed.length > 0) return;
      await work(item).catch((error: unknown) => failed.push(error));
    }
  };
  await Promise.all(Array.from({ length: at_once }, run));
  if (failed.length > 0) throw failed[0];
}

/** Removes objects; of an upload's, the first one first, so that it is gone with that. */
export async function removeAll(store: S3Store, keys: readonly string[]): Promise<void> {
  const [first, ...rest] = keys;
  if (first === undefined) return;
  await store.remove(first);
  await forEachOf(rest, REMOVALS_IN_FLIGHT, (key) => store.remove(key));
}

/** Bytes on their way into segments of one directory, in bounded memory. */
export class SegmentWriter {
  readonly #store: S3Store;
  readonly #directory: string;
  readonly #bytes_max: number;
  readonly #segment_bytes: number;
  readonly #written: Segment[] = [];
  readonly #flying = new Set<Promise<void>>();
  #failed: { error: unknown } | undefined;
  /** The segment that is being filled. */
  #start: number;
  #buffer: Buffer | undefined;
  /** What the store has: memory to use again, which otherwise waits for the garbage collector (86 MB instead of 32 were seen). */
  readonly #spare: Buffer[] = [];
  #filled = 0;
  #has_news = false;

  /**
   * Goes on at the byte `at` of an upload that may have `bytes_max`. `tail` is the content of its last segment when that is
   * shorter than a segment should be: it is written anew, with what follows.
   */
  constructor(store: S3Store, directory: string, options: { at: number; bytes_max: number; tail?: Buffer | undefined }) {
    this.#store = store;
    this.#directory = directory;
    this.#bytes_max = options.bytes_max;
    this.#segment_bytes = segmentBytes(options.bytes_max);
    this.#start = options.at - (options.tail?.byteLength ?? 0);
    if (options.tail !== undefined) this.#fill(options.tail);
    this.#has_news = false;
  }

  /** Resolves when there is room for more. Rejects when a segment could not be written. */
  async write(chunk: Uint8Array): Promise<void> {
    // With the next byte, not with the next full segment, which may be minutes away.
    this.#requireWorking();
    for (let taken = 0; taken < chunk.byteLength;) {
      taken += this.#fill(chunk.subarray(taken));
      if (this.#filled < this.#segment_bytes) continue;
      this.#send();
      while (this.#flying.size >= SEGMENTS_IN_FLIGHT) await Promise.race(this.#flying);
      this.#requireWorking();
    }
  }

  /** Writes what is left. Resolves with what was written when the store has all of it; rejects when it has not, with nothing on its way any more. */
  async finish(): Promise<Segment[]> {
    if (this.#has_news && this.#failed === undefined) this.#send();
    await Promise.all(this.#flying);
    this.#requireWorking();
    return this.#written;
  }

  /** Writes nothing more. Resolves, when nothing is on its way any more, with what was written. */
  async cease(): Promise<Segment[]> {
    await Promise.all(this.#flying);
    return this.#written;
  }

  #requireWorking(): void {
    if (this.#failed !== undefined) throw this.#failed.error;
  }

  #fill(chunk: Uint8Array): number {
    this.#buffer ??= this.#spare.pop() ?? Buffer.allocUnsafeSlow(Math.max(0, Math.min(this.#segment_bytes, this.#bytes_max - this.#start)));
    const taken = Math.min(chunk.byteLength, this.#buffer.byteLength - this.#filled);
    if (taken === 0) throw new Error("more bytes than the upload may have");
    this.#buffer.set(chunk.subarray(0, taken), this.#filled);
    this.#filled += taken;
    this.#has_news = true;
    return taken;
  }

  #send(): void {
    const [start, end] = [this.#start, this.#start + this.#filled];
    const name = `${String(start).padStart(16, "0")}-${end}-${randomBytes(8).toString("hex")}`;
    const segment: Segment = { key: `${this.#directory}/${name}`, start, end };
    const buffer = this.#buffer ?? Buffer.alloc(0);
    const flight = this.#store
      .put(segment.key, buffer.subarray(0, this.#filled))
      .then(() => {
        this.#written.push(segment);
        this.#spare.push(buffer);
      })
      .catch((error: unknown) => void (this.#failed ??= { error }))
      .finally(() => this.#flying.delete(flight));
    this.#flying.add(flight);
    this.#start = end;
    this.#buffer = undefined;
    this.#filled = 0;
    this.#has_news = false;
  }
}
