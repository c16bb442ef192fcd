import { randomBytes } from "node:crypto";
import type { Clock } from "@roamfleet/clock";
import type { EngineLog } from "../log.ts";
import { splitKey } from "./blobs.ts";
import { toS3Error } from "./s3-error.ts";
import type { S3Object, S3Part, S3Store } from "./s3-store.ts";

const MIB = 1024 * 1024;
/** Minimum length of every segment except the last. S3 requires parts of at least 5 MiB, and each segment costs one to three requests. */
const SEGMENT_BYTES = 8 * MIB;
/** Maximum number of segments of an upload, because S3 accepts at most 10,000 parts. A longer upload uses longer segments. */
const SEGMENTS_MAX = 9_000;
const SEGMENT_BYTES_MAX = 512 * MIB;
/** Maximum concurrent segment requests of one upload. Together with the segment being filled, they take 32 MiB (four of 8 MiB). */
const SEGMENTS_IN_FLIGHT = 3;
const REMOVALS_IN_FLIGHT = 8;
const NAME = /^(\d{16})-(\d{1,16})-[0-9a-f]{16}$/;

/** A range of an upload that is stored as a separate object. Such an object is never overwritten. */
export interface Segment {
  key: string;
  /** Position of the segment's first byte in the upload. */
  start: number;
  /** Position after the segment's last byte. */
  end: number;
}

/** Returns the segment length for an upload of at most `bytes` bytes. */
export function segmentBytes(bytes: number): number {
  const needed = Math.ceil(bytes / SEGMENTS_MAX / MIB) * MIB;
  return Math.min(SEGMENT_BYTES_MAX, Math.max(SEGMENT_BYTES, needed));
}

/**
 * Finds the segments of an upload among the objects of its directory. `chain` has the contiguous segments from the upload's first byte.
 * If several segments start at the same byte, the longest is used. `strays` are all other objects: segments that a longer one replaces, and
 * segments after a gap. The result is correct after any crash, because S3 objects appear atomically.
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

/** Runs `work` for each item, at most `at_once` concurrently. After an error, starts no more, waits for the running ones, and rejects. */
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

/** Removes objects, the first key before all others. Without its first segment, a partly removed upload is no longer found. */
export async function removeAll(store: S3Store, keys: readonly string[]): Promise<void> {
  const [first, ...rest] = keys;
  if (first === undefined) return;
  await store.remove(first);
  await forEachOf(rest, REMOVALS_IN_FLIGHT, (key) => store.remove(key));
}

/** Writes a stream as segments to one directory, in bounded memory. */
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
  /** Buffers to reuse. Without reuse, 86 MB were measured instead of 32 MB, because freed buffers wait for the garbage collector. */
  readonly #spare: Buffer[] = [];
  #filled = 0;
  #has_news = false;

  /**
   * Continues at byte `at` of an upload of at most `bytes_max`. If the last stored segment is shorter than a full one, pass its content as
   * `tail`: the next segment starts with it and replaces that short segment.
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

  /** Resolves when there is room for another chunk. Rejects if a segment could not be written. */
  async write(chunk: Uint8Array): Promise<void> {
    // Rejects as soon as a segment has failed. Otherwise the error would wait for the next full segment, which may take minutes.
    this.#requireWorking();
    for (let taken = 0; taken < chunk.byteLength;) {
      taken += this.#fill(chunk.subarray(taken));
      if (this.#filled < this.#segment_bytes) continue;
      this.#send();
      while (this.#flying.size >= SEGMENTS_IN_FLIGHT) await Promise.race(this.#flying);
      this.#requireWorking();
    }
  }

  /** Sends the last segment, waits for all requests and returns the written segments. Rejects if any segment failed. */
  async finish(): Promise<Segment[]> {
    if (this.#has_news && this.#failed === undefined) this.#send();
    await Promise.all(this.#flying);
    this.#requireWorking();
    return this.#written;
  }

  /** Stops without sending the last segment. Waits for the running requests and returns the written segments. */
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

const COPIES_IN_FLIGHT = 8;
/** Metadata key of a multipart object. Its value identifies the attempt which created the object. */
const ATTEMPT = "roamfleet-attempt";

interface Prepared {
  key: string;
  id: string;
  attempt: string;
  parts: readonly S3Part[];
}

/**
 * Combines segments into one object. The store copies the bytes, so they do not pass through this process. `prepare` copies all segments,
 * which is slow. `commit` then makes the object visible with one request.
 */
export class Placement {
  readonly #store: S3Store;
  readonly #segments: readonly Segment[];
  #prepared: Prepared | undefined;

  constructor(store: S3Store, segments: readonly Segment[]) {
    this.#store = store;
    this.#segments = segments;
  }

  /** Copies all segments into a multipart upload, which `commit` completes. A single segment needs no preparation. */
  async prepare(key: string): Promise<void> {
    if (this.#segments.length < 2 || this.#prepared?.key === key) return;
    await this.cancel();
    this.#prepared = await this.#copyAll(key);
  }

  /** Makes the object visible and replaces an existing one. Calls `prepare` first if the caller has not called it. */
  async commit(key: string): Promise<void> {
    const [first] = this.#segments;
    if (first === undefined) return await this.#store.put(key, Buffer.alloc(0));
    if (this.#segments.length === 1) return await this.#store.copy(first.key, key);
    await this.prepare(key);
    const { id, attempt, parts } = this.#prepared as Prepared;
    try {
      await this.#store.completeParts(key, id, parts);
    } catch (error) {
      // If the response of an earlier attempt was lost, the multipart upload is gone but the object exists. That counts as success.
      if (toS3Error("CompleteMultipartUpload", error).reason !== "NoSuchUpload") throw error;
      if ((await this.#store.head(key))?.metadata[ATTEMPT] !== attempt) throw error;
    }
    this.#prepared = undefined;
  }

  /** Aborts the prepared multipart upload. */
  async cancel(): Promise<void> {
    if (this.#prepared === undefined) return;
    const { key, id } = this.#prepared;
    this.#prepared = undefined;
    await this.#store.abortParts(key, id);
  }

  async #copyAll(key: string): Promise<Prepared> {
    const attempt = randomBytes(8).toString("hex");
    const id = await this.#store.beginParts(key, { [ATTEMPT]: attempt });
    try {
      const parts: S3Part[] = [];
      await forEachOf([...this.#segments.entries()], COPIES_IN_FLIGHT, async ([index, segment]) => {
        parts[index] = await this.#store.copyPart(key, id, index + 1, segment.key);
      });
      return { key, id, attempt, parts };
    } catch (error) {
      await this.#store.abortParts(key, id).catch(() => {});
      throw error;
    }
  }
}

export const BLOBS = "blobs";

/** Returns the object key of a blob. Throws `bad_key`. */
export function blobObject(key: string): string {
  const { owner, name } = splitKey(key);
  return `${BLOBS}/${owner}/${name}`;
}

/** The store, clock and log that all parts of the S3 blob store share. */
export class S3Context {
  readonly store: S3Store;
  readonly clock: Clock;
  /** Clock that determines the age of leftover objects. */
  readonly retention_clock: Pick<Clock, "now">;
  readonly log: EngineLog;
  readonly #removals = new Set<Promise<void>>();

  constructor(store: S3Store, options: { clock: Clock; retention_clock?: Pick<Clock, "now">; log: EngineLog }) {
    this.store = store;
    this.clock = options.clock;
    this.retention_clock = options.retention_clock ?? options.clock;
    this.log = options.log;
  }

  /**
   * Removes objects. Waits only for the first one and removes the others in the background, because callers may be inside a database
   * transaction. Failed removals are logged, not thrown: the periodic sweep removes these objects later.
   */
  async forget(keys: readonly string[]): Promise<void> {
    const [first = "", ...rest] = keys;
    const warn = (error: unknown): void =>
      this.log.warn({ err: error }, "could not delete objects of an upload; a later cleanup deletes them");
    await removeAll(this.store, first === "" ? [] : [first]).catch(warn);
    if (rest.length === 0) return;
    const removal = removeAll(this.store, rest).catch(warn);
    this.#removals.add(removal);
    void removal.finally(() => this.#removals.delete(removal));
  }

  /** Waits for the background removals. */
  async settled(): Promise<void> {
    while (this.#removals.size > 0) await Promise.all(this.#removals);
  }
}
