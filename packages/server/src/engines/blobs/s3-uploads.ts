import { createHash, type Hash } from "node:crypto";
import { once } from "node:events";
import { PassThrough, type Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type { Clock } from "@roamfleet/clock";
import {
  type Appended,
  type AppendOptions,
  BlobError,
  type BlobRange,
  type BlobStat,
  type Completed,
  splitKey,
  type Staged,
} from "./blobs.ts";
import { toS3Error } from "./s3-error.ts";
import {
  blobObject,
  bytesOf,
  chainOf,
  Placement,
  removeAll,
  type S3Context,
  type Segment,
  segmentBytes,
  SegmentWriter,
} from "./s3-segments.ts";
import type { S3Object, S3Store } from "./s3-store.ts";
import { chunksOf, heard } from "./streams.ts";
import { LRUCache } from "lru-cache";

/** A byte range of a stored object, from `start` to `end`, both included. */
interface Piece {
  key: string;
  start: number;
  end: number;
  /** ETag that the object must have. If the object was replaced, its ETag differs and the read fails. */
  etag?: string | undefined;
}

/** Maximum consecutive disconnects without a received byte. One more fails the read. The SDK's retries of failed calls do not count. */
const CUTS_MAX = 3;
const PAUSE_MS = 200;

/**
 * Streams the pieces in order. After a disconnect it reconnects and continues at the same byte, so that a long download of a robot does not
 * fail. `opened` is the response body of the first piece if the caller has requested it already.
 */
export function readPieces(store: S3Store, clock: Clock, pieces: readonly Piece[], opened?: Readable): Readable {
  const out = new PassThrough();
  const stopping = new AbortController();
  out.once("close", () => stopping.abort());
  pump({ store, clock, out, signal: stopping.signal }, pieces, opened).then(
    () => void (out.destroyed || out.end()),
    (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return out;
}

interface Pump {
  store: S3Store;
  clock: Clock;
  out: PassThrough;
  signal: AbortSignal;
}

async function pump(context: Pump, pieces: readonly Piece[], opened: Readable | undefined): Promise<void> {
  let body = opened;
  context.signal.addEventListener("abort", () => void body?.destroy(), { once: true });
  for (const piece of pieces) {
    let at = piece.start;
    let cuts = 0;
    while (at <= piece.end && !context.signal.aborted) {
      body ??= (await context.store.get(piece.key, { start: at, end: piece.end }, piece.etag)).body;
      try {
        for await (const chunk of awaited(context, body)) {
          at += chunk.byteLength;
          cuts = 0;
          if (context.signal.aborted) return;
          if (!context.out.write(chunk)) await once(context.out, "drain", { signal: context.signal });
        }
        if (at <= piece.end) throw new Error("the response of the S3 store ended early");
      } catch (error) {
        if (context.signal.aborted) return;
        cuts += 1;
        if (cuts > CUTS_MAX) throw toS3Error("GetObject", error);
        await context.clock.sleep(PAUSE_MS * cuts, context.signal);
      } finally {
        body?.destroy();
        body = undefined;
      }
    }
  }
}

/** Yields the chunks of a body. Throws if the next chunk does not arrive within `quiet_ms`. */
async function* awaited({ store: { quiet_ms }, clock }: Pump, body: Readable): AsyncGenerator<Buffer> {
  const chunks = body[Symbol.asyncIterator]();
  for (;;) {
    // The timer runs only while this function waits for the store, so the time that a slow reader takes does not count.
    const late = clock.setTimer(quiet_ms, () => body.destroy(new Error(`no data for ${quiet_ms} ms`)));
    const { done, value } = await chunks.next().finally(() => late.cancel());
    if (done === true) return;
    yield value as Buffer;
  }
}

export const UPLOADS = "uploads";
/** Maximum running digests in memory. If the digest of an upload was evicted, all its segments are read again at the end of the upload. */
const DIGESTS_MAX = 1_000;

interface Digest {
  hash: Hash;
  /** Identifies the segments that the digest covers. It differs if another server has continued or restarted the upload. */
  chain: string;
}

const nameOf = (chain: readonly Segment[]): string => {
  const hash = createHash("sha256");
  for (const { key } of chain) hash.update(`${key}\n`);
  return hash.digest("hex");
};

/** Streams the bytes of contiguous segments, or of a range within them. */
export function readSegments({ store, clock }: S3Context, chain: readonly Segment[], range?: BlobRange): Readable {
  const { start: from, end: to } = range ?? { start: 0, end: bytesOf(chain) - 1 };
  const pieces = chain
    .filter(({ start, end }) => start <= to && end > from)
    .map(({ key, start, end }) => ({ key, start: Math.max(from - start, 0), end: Math.min(to, end - 1) - start }));
  return readPieces(store, clock, pieces);
}

/** A complete upload, stored as segments. `strays` are the upload's unused objects, which are removed along with the segments. */
export class StagedSegments implements Staged {
  readonly size: number;
  readonly sha256: string;
  readonly #context: S3Context;
  readonly #segments: readonly Segment[];
  readonly #keys: readonly string[];
  readonly #placement: Placement;
  readonly #onCommitted: () => void;
  #state: "staged" | "committed" | "discarded" = "staged";

  constructor(
    context: S3Context,
    segments: readonly Segment[],
    { size, sha256 }: { size: number; sha256: string },
    { strays = [], onCommitted = () => {} }: { strays?: readonly string[]; onCommitted?: () => void } = {},
  ) {
    this.#context = context;
    this.#segments = segments;
    this.#keys = [...segments.map(({ key }) => key), ...strays];
    this.#placement = new Placement(context.store, segments);
    this.#onCommitted = onCommitted;
    this.size = size;
    this.sha256 = sha256;
  }

  read(range?: BlobRange): Readable {
    return readSegments(this.#context, this.#segments, range);
  }

  async prepare(key: string): Promise<void> {
    if (this.#mustCommit()) await this.#placement.prepare(blobObject(key));
  }

  async commit(key: string): Promise<void> {
    if (!this.#mustCommit()) return;
    await this.#placement.commit(blobObject(key));
    this.#state = "committed";
    this.#onCommitted();
    await this.#context.forget(this.#keys);
  }

  async discard(): Promise<void> {
    if (this.#state !== "staged") return;
    this.#state = "discarded";
    await this.#placement.cancel().catch((error: unknown) => {
      this.#context.log.warn({ err: error }, "could not abort a copy in the S3 store; a later cleanup aborts it");
    });
    await this.#context.forget(this.#keys);
  }

  #mustCommit(): boolean {
    if (this.#state === "discarded") throw new Error("the upload was already discarded");
    return this.#state === "staged";
  }
}

/**
 * Stores resumable uploads as objects `uploads/<owner>/<name>/<first byte>-<byte after the last>-<random>`, because S3 cannot append. The
 * stored objects are the only state, and no object is ever overwritten. So after any crash, the contiguous segments from byte 0 contain
 * only received bytes.
 */
export class S3Uploads {
  readonly #context: S3Context;
  readonly #digests = new LRUCache<string, Digest>({ max: DIGESTS_MAX });

  constructor(context: S3Context) {
    this.#context = context;
  }

  async append(key: string, stream: Readable, options: AppendOptions): Promise<Appended> {
    using _ = heard(stream);
    const { chain, strays } = await this.#find(key);
    const size = bytesOf(chain);
    if (size !== options.offset) throw new BlobError("bad_range", `the upload has ${size} bytes, not ${options.offset}`);
    if (size > options.max_bytes) throw new BlobError("too_large", `more than ${options.max_bytes} bytes`);
    // Strays are removed first. New segments could close the gap before a stray, which would make it part of the upload.
    await removeAll(this.#context.store, strays);
    return await this.#write(key, chain, stream, options);
  }

  async uploaded(key: string): Promise<number> {
    return bytesOf((await this.#find(key)).chain);
  }

  async complete(key: string, expect: { size: number; sha256: string }): Promise<Completed> {
    const { chain, strays } = await this.#find(key);
    const size = bytesOf(chain);
    if (size !== expect.size) throw new BlobError("mismatch", `received ${size} bytes, expected ${expect.size}`);
    const known = this.#digests.get(key);
    const sha256 = known?.chain === nameOf(chain) ? known.hash.copy().digest("hex") : await this.#digestOf(chain);
    if (sha256 !== expect.sha256) throw new BlobError("mismatch", `the received data has SHA-256 ${sha256}, expected ${expect.sha256}`);
    return new StagedSegments(this.#context, chain, expect, { strays, onCommitted: () => this.#digests.delete(key) });
  }

  async abandon(key: string): Promise<void> {
    this.#digests.delete(key);
    const { chain, strays } = await this.#find(key);
    await removeAll(this.#context.store, [...chain.map((segment) => segment.key), ...strays]);
  }

  async *listUploads(): AsyncGenerator<BlobStat> {
    for await (const { directory, objects } of groupsOf(this.#context.store.list(`${UPLOADS}/`))) {
      const size = bytesOf(chainOf(objects).chain);
      if (size > 0) yield { key: directory.slice(UPLOADS.length + 1), size, stored_at: newestOf(objects) };
    }
  }

  async #find(key: string): Promise<{ chain: Segment[]; strays: string[] }> {
    return chainOf(await Array.fromAsync(this.#context.store.list(`${directoryOf(key)}/`)));
  }

  async #write(key: string, chain: readonly Segment[], stream: Readable, options: AppendOptions): Promise<Appended> {
    const { store } = this.#context;
    const { offset, max_bytes } = options;
    const hash = this.#takeDigest(key, chain);
    const last = chain.at(-1);
    const is_short = last !== undefined && last.end - last.start < segmentBytes(max_bytes);
    const tail = is_short ? await buffer(readSegments(this.#context, chain, { start: last.start, end: last.end - 1 })) : undefined;
    const writer = new SegmentWriter(store, directoryOf(key), { at: offset, bytes_max: max_bytes, tail });
    let size = offset;
    const keep = async (): Promise<void> => {
      const written = await writer.finish();
      if (is_short && written.length > 0) await this.#context.forget([last.key]);
      if (hash !== undefined) this.#digests.set(key, { hash, chain: nameOf(chainAfter(chain, written)) });
    };
    try {
      for await (const chunk of chunksOf(stream, options.signal)) {
        if (size + chunk.byteLength > max_bytes) throw new BlobError("too_large", `more than ${max_bytes} bytes`);
        await writer.write(chunk);
        hash?.update(chunk);
        size += chunk.byteLength;
        options.on_bytes?.(chunk.byteLength);
      }
    } catch (error) {
      if (!(error instanceof BlobError)) {
        await writer.cease();
        throw error;
      }
      await keep();
      if (error.code !== "interrupted") throw error;
      return { size, whole: false };
    }
    await keep();
    return { size, whole: true };
  }

  /** Removes the upload's running digest from the cache and returns it; undefined if absent. The caller puts it back after an append. */
  #takeDigest(key: string, chain: readonly Segment[]): Hash | undefined {
    const known = this.#digests.get(key);
    this.#digests.delete(key);
    if (chain.length === 0) return createHash("sha256");
    return known?.chain === nameOf(chain) ? known.hash : undefined;
  }

  async #digestOf(chain: readonly Segment[]): Promise<string> {
    const hash = createHash("sha256");
    for await (const chunk of readSegments(this.#context, chain)) hash.update(chunk as Buffer);
    return hash.digest("hex");
  }
}

/**
 * Returns the segments of the upload after `written` is stored. `written` may start with a longer version of the last segment in `chain`.
 */
function chainAfter(chain: readonly Segment[], written: readonly Segment[]): Segment[] {
  const in_order = written.toSorted((a, b) => a.start - b.start);
  const from = in_order[0]?.start ?? Infinity;
  return [...chain.filter(({ start }) => start < from), ...in_order];
}

function directoryOf(key: string): string {
  const { owner, name } = splitKey(key);
  return `${UPLOADS}/${owner}/${name}`;
}

/** Groups objects by directory. S3 lists the objects of one directory consecutively. */
export async function* groupsOf(objects: AsyncIterable<S3Object>): AsyncGenerator<{ directory: string; objects: S3Object[] }> {
  let group: { directory: string; objects: S3Object[] } | undefined;
  for await (const object of objects) {
    const directory = object.key.slice(0, object.key.lastIndexOf("/"));
    if (group !== undefined && group.directory !== directory) yield group;
    if (group?.directory !== directory) group = { directory, objects: [] };
    group.objects.push(object);
  }
  if (group !== undefined) yield group;
}

export const newestOf = (objects: readonly S3Object[]): Date => new Date(Math.max(...objects.map(({ stored_at }) => stored_at.getTime())));
