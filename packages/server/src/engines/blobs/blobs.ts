import type { Readable } from "node:stream";

/** A range of a blob: bytes `start` to `end`, both included, as in an HTTP Range. */
export interface BlobRange {
  start: number;
  end: number;
}

export interface BlobStat {
  key: string;
  /** Size of the blob or upload in bytes. */
  size: number;
  stored_at: Date;
}

/** An upload whose bytes are complete and verified. */
export interface Completed {
  /** Returns the uploaded bytes before the commit. Read the stream to its end or destroy it. */
  read(range?: BlobRange): Readable;
  /** Does the slow part of `commit(key)`. Call it before opening a database transaction. The blob is not readable until `commit`. */
  prepare(key: string): Promise<void>;
  /** Stores the bytes durably as blob `key` and ends the upload. Replaces an existing blob atomically. Further calls have no effect. */
  commit(key: string): Promise<void>;
}

/** The complete bytes of an upload in one request, not yet stored as a blob. The caller must call `commit` or `discard`. */
export interface Staged extends Completed {
  /** Number of bytes. */
  readonly size: number;
  /** SHA-256 of the bytes in lower-case hex. */
  readonly sha256: string;
  /** Removes the bytes. Has no effect after `commit`, so a `finally` block may always call it. */
  discard(): Promise<void>;
}

export interface ReceiveOptions {
  /** Maximum number of bytes. As soon as more bytes arrive, the upload is rejected with `too_large`. */
  max_bytes: number;
  /** Expected digest and size. If those of the upload differ, it is rejected with `mismatch`. */
  expect?: { sha256?: string | undefined; size?: number | undefined };
  signal?: AbortSignal;
  /** Called for each chunk with its number of bytes. */
  on_bytes?: (bytes: number) => void;
}

export interface AppendOptions {
  /** Expected size of the upload before the append. If the upload has another size, the append is rejected with `bad_range`. */
  offset: number;
  /** Maximum size of the whole upload in bytes. A longer upload is rejected with `too_large`, but its stored bytes are kept. */
  max_bytes: number;
  /** Aborts the append. Bytes that are already stored are kept. */
  signal?: AbortSignal;
  /** Called for each chunk with its number of bytes. */
  on_bytes?: (bytes: number) => void;
}

export interface Appended {
  /** Number of bytes of the upload that are stored durably. */
  size: number;
  /** True if the stream was read to its end; false if the stream broke. */
  whole: boolean;
}

/**
 * A store of artifacts. A key is `<owner>/<name>`, where each part has letters, digits, `.`, `_` and `-`; for artifacts it is
 * `<org_id>/<sha256>`. Methods reject with a BlobError or an error of the file system or the store.
 */
export interface Blobs {
  /** Reads a stream to its end. After an error, removes the bytes but leaves the stream open, so that the caller can send a response. */
  receive(stream: Readable, options: ReceiveOptions): Promise<Staged>;
  /**
   * Appends the stream to the resumable upload `key` and returns the size of the upload afterwards. If the stream breaks, the bytes
   * received so far are kept. Does not destroy the stream. The caller must not run two calls for one upload at the same time.
   */
  append(key: string, stream: Readable, options: AppendOptions): Promise<Appended>;
  /** Returns how many bytes of a resumable upload are stored durably; 0 if there is no such upload. */
  uploaded(key: string): Promise<number>;
  /** Verifies a resumable upload. Rejects with `mismatch` if its size or digest differs from `expect`. The upload then stays unchanged. */
  complete(key: string, expect: { size: number; sha256: string }): Promise<Completed>;
  /** Removes a resumable upload. Succeeds if there is none. */
  abandon(key: string): Promise<void>;
  /** Lists all resumable uploads that have bytes, in no order. */
  listUploads(): AsyncIterable<BlobStat>;
  /**
   * Reads a blob or a range of it. `size` is the size of the whole blob, even for a range. Read the stream to its end or destroy it.
   * Rejects with `not_found`, or with `bad_range` for a range past the end.
   */
  read(key: string, range?: BlobRange): Promise<{ stream: Readable; size: number }>;
  /** Returns the size and age of a blob; undefined if there is no such blob. */
  stat(key: string): Promise<BlobStat | undefined>;
  /** Deletes a blob. Succeeds if there is none. */
  delete(key: string): Promise<void>;
  /** Lists the blobs whose keys start with `prefix`, in no order. `org_1/` lists the blobs of one owner, and "" lists all. */
  list(prefix: string): AsyncIterable<BlobStat>;
  /** Returns the free space of the store in bytes; Infinity if unknown. */
  freeBytes(): Promise<number>;
  close(): Promise<void>;
}

export type BlobErrorCode = "bad_key" | "not_found" | "bad_range" | "too_large" | "mismatch" | "no_space" | "interrupted";

/** An error that callers can handle by its `code`. */
export class BlobError extends Error {
  readonly code: BlobErrorCode;
  constructor(code: BlobErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BlobError";
    this.code = code;
  }
}

/** One part of a key. It must not start with a dot, which excludes `.`, `..` and hidden files. */
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
