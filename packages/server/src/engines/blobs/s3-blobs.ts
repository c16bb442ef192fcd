import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import type { EngineLog } from "../log.ts";
import { BlobError, type BlobRange, type Blobs, type BlobStat, type ReceiveOptions, splitKey, splitPrefix, type Staged } from "./blobs.ts";
import { S3Error } from "./s3-error.ts";
import { blobObject, BLOBS, chainOf, removeAll, S3Context, SegmentWriter } from "./s3-segments.ts";
import { openS3, type S3Patience, type S3Settings } from "./s3-store.ts";
import { groupsOf, newestOf, readPieces, S3Uploads, StagedSegments, UPLOADS } from "./s3-uploads.ts";
import { heard, measure } from "./streams.ts";

const SWEEP_EVERY_MS = 6 * 3_600_000;

/**
 * Stores blobs in an S3-compatible store, each as `blobs/<owner>/<name>` below the prefix in the settings. Several servers may share one
 * prefix. Rejects with an S3Error if the store refuses access. If the store does not respond, it only logs a warning, because the store may
 * be reachable again before the first blob is needed.
 */
export async function s3Blobs(
  settings: S3Settings,
  options: { clock: Clock; retention_clock?: Pick<Clock, "now">; log: EngineLog } & S3Patience,
): Promise<Blobs> {
  const store = await openS3(settings, options.log, options);
  try {
    await store.check();
  } catch (error) {
    if (!(error instanceof S3Error) || error.stays) {
      store.close();
      throw error;
    }
    options.log.warn({ err: error }, "the S3 store does not respond; artifacts can be neither stored nor downloaded until it does");
  }
  return new S3Blobs(new S3Context(store, options));
}

class S3Blobs extends S3Uploads implements Blobs {
  readonly #context: S3Context;
  readonly #sweeper: Timer;
  #sweeping: Promise<void>;
  #checking: Promise<void> | undefined;

  constructor(context: S3Context) {
    super(context);
    this.#context = context;
    this.#sweeping = this.#sweep();
    this.#sweeper = context.clock.every(SWEEP_EVERY_MS, () => (this.#sweeping = this.#sweep()));
  }

  async receive(stream: Readable, options: ReceiveOptions): Promise<Staged> {
    using _ = heard(stream);
    const directory = `${STAGING}/${randomBytes(12).toString("hex")}`;
    const writer = new SegmentWriter(this.#context.store, directory, { at: 0, bytes_max: options.max_bytes });
    try {
      const measured = await measure(stream, options, (chunk) => writer.write(chunk));
      const segments = (await writer.finish()).toSorted((a, b) => a.start - b.start);
      return new StagedSegments(this.#context, segments, measured);
    } catch (error) {
      const written = await writer.cease();
      await this.#context.forget(written.map(({ key }) => key));
      throw error;
    }
  }

  async read(key: string, range?: BlobRange): Promise<{ stream: Readable; size: number }> {
    const { store, clock } = this.#context;
    const object = blobObject(key);
    const outside = (): BlobError => new BlobError("bad_range", `bytes ${range?.start} to ${range?.end} are outside of blob ${key}`);
    if (range !== undefined && !(range.start >= 0 && range.start <= range.end)) throw outside();
    const { body, size, etag } = await store.get(object, range).catch((error: unknown) => {
      if (error instanceof S3Error && error.reason === "NoSuchKey") throw new BlobError("not_found", `no blob ${key}`);
      throw error instanceof S3Error && error.status === 416 ? outside() : error;
    });
    // This check is necessary because S3 shortens a range that ends past the end of the object instead of refusing it.
    if (range !== undefined && range.end >= size) {
      body.destroy();
      throw outside();
    }
    if (size > 0)
      return { stream: readPieces(store, clock, [{ key: object, etag, ...(range ?? { start: 0, end: size - 1 }) }], body), size };
    body.destroy();
    return { stream: Readable.from([]), size };
  }

  async stat(key: string): Promise<BlobStat | undefined> {
    const found = await this.#context.store.head(blobObject(key));
    return found === undefined ? undefined : { key, size: found.size, stored_at: found.stored_at };
  }

  async delete(key: string): Promise<void> {
    await this.#context.store.remove(blobObject(key));
  }

  async *list(prefix: string): AsyncGenerator<BlobStat> {
    const owner = splitPrefix(prefix);
    for await (const { key: object, size, stored_at } of this.#context.store.list(
      owner === undefined ? `${BLOBS}/` : `${BLOBS}/${owner}/`,
    )) {
      const key = object.slice(BLOBS.length + 1);
      if (isKey(key)) yield { key, size, stored_at };
    }
  }

  /** Returns Infinity if the store responds. Otherwise rejects, so that the readiness check fails. */
  async freeBytes(): Promise<number> {
    // Concurrent calls share one check. Load balancers call every second; otherwise many calls would wait for an unreachable store.
    await (this.#checking ??= this.#context.store.check().finally(() => (this.#checking = undefined)));
    return Infinity;
  }

  async close(): Promise<void> {
    this.#sweeper.cancel();
    await this.#sweeping;
    await this.#context.settled();
    this.#context.store.close();
  }

  async #sweep(): Promise<void> {
    await sweepLeftovers(this.#context).catch((error: unknown) => {
      this.#context.log.warn({ err: error }, "could not delete leftover objects in the S3 store");
    });
  }
}

function isKey(key: string): boolean {
  try {
    splitKey(key);
    return true;
  } catch {
    return false;
  }
}

const STAGING = "staging";
/** Minimum age of leftovers to remove. Younger objects may belong to an upload that another server is receiving. */
const LEFTOVER_MS = 24 * 3_600_000;

/**
 * Removes leftovers of crashes that are older than a day: staged bytes that were never committed, resumable uploads whose first segment is
 * missing, and multipart uploads that were never completed.
 */
export async function sweepLeftovers({ store, retention_clock, log }: S3Context): Promise<void> {
  const before = new Date(retention_clock.now().getTime() - LEFTOVER_MS);
  let objects_removed = 0;
  for (const directory of [STAGING, UPLOADS]) {
    for await (const { objects } of groupsOf(store.list(`${directory}/`))) {
      if (newestOf(objects) >= before || (directory === UPLOADS && chainOf(objects).chain.length > 0)) continue;
      const keys = objects.map(({ key }) => key);
      await removeAll(store, keys);
      objects_removed += keys.length;
    }
  }
  let copies_aborted = 0;
  for await (const { key, id, begun_at } of store.listParts(`${BLOBS}/`)) {
    if (begun_at >= before) continue;
    await store.abortParts(key, id);
    copies_aborted += 1;
  }
  if (objects_removed + copies_aborted > 0) log.info({ objects_removed, copies_aborted }, "deleted leftover objects in the S3 store");
}
