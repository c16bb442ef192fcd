import type { Readable } from "node:stream";

/** A range of a blob: bytes `start` to `end`, both included, as in an HTTP Range. */
export interface BlobRange {
  start: number;
  end: number;
}

export interface BlobStat {
  key: string;
  /** Bytes. */
  size: number;
  stored_at: Date;
}

/** An upload whose bytes are complete and verified. */
export interface Completed {
  /** Returns the uploaded bytes before the commit. Read the stream to its end or destroy it. */
  read(range?: BlobRange): Readable;
  /** Does the slow part of `commit(key)` in advance, for callers that commit in a transaction. Nothing is readable yet. */
  prepare(key: string): Promise<void>;
  /** Makes the bytes readable under `key`, durably, and ends the upload. Replaces an existing blob atomically. Further calls have no effect. */
  commit(key: string): Promise<void>;
}

/** An upload in one request that is not yet a blob. Ends with `commit` or `discard`. */
export interface Staged extends Completed {
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** Removes the bytes. After `commit` it has no effect, so that it can be called in a `finally`. */
  discard(): Promise<void>;
}

export interface ReceiveOptions {
  /** Rejects with `too_large` as soon as more bytes have arrived. */
  max_bytes: number;
  /** Rejects with `mismatch` if the bytes differ from this. */
  expect?: { sha256?: string | undefined; size?: number | undefined };
  signal?: AbortSignal;
  /** Called with the number of bytes as they arrive. */
  on_bytes?: (bytes: number) => void;
}

export interface AppendOptions {
  /** Current size of the upload in bytes. Rejects with `bad_range` if it has another size. */
  offset: number;
  /** Rejects with `too_large` if the upload would become longer. Bytes that are already stored are kept. */
  max_bytes: number;
  /** Aborts the append. Bytes that are already stored are kept. */
  signal?: AbortSignal;
  /** Called with the number of bytes written by this call, as they arrive. */
  on_bytes?: (bytes: number) => void;
}

export interface Appended {
  /** Bytes of the upload that are stored durably. */
  size: number;
  /** False if the stream broke. */
  whole: boolean;
}

/**
 * A store of artifacts. Keys are `<org_id>/<sha256>`, in general two parts of letters, digits, `.`, `_` and `-`. Every method rejects with
 * a BlobError or an error of the file system or the store.
 */
export interface Blobs {
  /** Reads the stream to its end. If it rejects, nothing is kept and the stream is not destroyed, so that a response can still be sent. */
  receive(stream: Readable, options: ReceiveOptions): Promise<Staged>;
  /**
   * Appends the stream to the resumable upload `key` and returns how much of it is kept, also if the stream broke. Does not destroy the
   * stream. The caller must serialize the calls for one upload.
   */
  append(key: string, stream: Readable, options: AppendOptions): Promise<Appended>;
  /** Returns the durable bytes of a resumable upload; 0 if there is none. */
  uploaded(key: string): Promise<number>;
  /** Verifies a resumable upload. If it differs from `expect`, rejects with `mismatch` and leaves it unchanged. */
  complete(key: string, expect: { size: number; sha256: string }): Promise<Completed>;
  /** Removes a resumable upload. It is no error if there is none. */
  abandon(key: string): Promise<void>;
  /** Lists all resumable uploads that have bytes, in no order. */
  listUploads(): AsyncIterable<BlobStat>;
  /**
   * Reads a blob or a range of it. `size` is always the whole blob's. Read the stream to its end or destroy it. Rejects with `not_found`,
   * or `bad_range` past the end.
   */
  read(key: string, range?: BlobRange): Promise<{ stream: Readable; size: number }>;
  /** Returns undefined if there is no such blob. */
  stat(key: string): Promise<BlobStat | undefined>;
  /** Deletes a blob. It is no error if there is none. */
  delete(key: string): Promise<void>;
  /** Lists blobs whose key starts with `prefix`, in no order: `org_1/` for one owner, "" for all. */
  list(prefix: string): AsyncIterable<BlobStat>;
  /** Returns the bytes that can still be stored; Infinity if unknown. */
  freeBytes(): Promise<number>;
  close(): Promise<void>;
}

export type BlobErrorCode = "bad_key" | "not_found" | "bad_range" | "too_large" | "mismatch" | "no_space" | "interrupted";

/** An error that callers can handle by its `code`. Nothing is kept of a refused upload. */
export class BlobError extends Error {
  readonly code: BlobErrorCode;
  constructor(code: BlobErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BlobError";
    this.code = code;
  }
}

/** Does not start with a dot, so that it cannot be `.`, `..` or a hidden file. */
const PART = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/;

/** Splits a key `<owner>/<name>`. Throws `bad_key` for anything else, including paths that leave a directory. */
export function splitKey(key: string): { owner: string; name: string } {
  const [owner = "", name = "", ...rest] = key.split("/");
  if (rest.length > 0 || !PART.test(owner) || !PART.test(name))
    throw new BlobError("bad_key", `not a blob key: ${JSON.stringify(key.slice(0, 300))}`);
  return { owner, name };
}

/** Returns the owner of a prefix `<owner>/`; undefined for "", which means all owners. Throws `bad_key`. */
export function splitPrefix(prefix: string): string | undefined {
  if (prefix === "") return undefined;
  const owner = prefix.slice(0, -1);
  if (!prefix.endsWith("/") || !PART.test(owner))
    throw new BlobError("bad_key", `not a blob prefix: ${JSON.stringify(prefix.slice(0, 300))}`);
  return owner;
}
