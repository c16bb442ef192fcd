import type { Readable } from "node:stream";

/** A stretch of a blob: bytes `start` to `end`, both included, as in an HTTP Range. */
export interface BlobRange {
  start: number;
  end: number;
}

export interface BlobStat {
  key: string;
  /** bytes */
  size: number;
  stored_at: Date;
}

/** Bytes that arrived whole but belong to nobody yet. Ends with `commit` or `discard`, exactly once. */
export interface Staged {
  /** bytes */
  readonly size: number;
  /** lower-case hex */
  readonly sha256: string;
  /** What arrived, before it is committed. Read the stream to its end or destroy it. */
  read(range?: BlobRange): Readable;
  /** Does ahead what takes long of `commit(key)`: of whoever commits in a transaction. Nothing is readable yet. */
  prepare(key: string): Promise<void>;
  /** Makes the bytes readable under `key`, durably; replaces what was there in one step. */
  commit(key: string): Promise<void>;
  /** Forgets the bytes. After `commit` it does nothing, so that it can stand in a `finally`. */
  discard(): Promise<void>;
}

export interface ReceiveOptions {
  /** Refuses with `too_large` as soon as more bytes came. */
  max_bytes: number;
  /** Refuses with `mismatch` when the bytes turn out to be others. */
  expect?: { sha256?: string | undefined; size?: number | undefined };
  signal?: AbortSignal;
  /** Called with the bytes that came, as they come. */
  on_bytes?: (bytes: number) => void;
}

export interface AppendOptions {
  /** How many bytes the upload has; refuses with `bad_range` when it has another number. */
  offset: number;
  /** Refuses with `too_large` what would make the upload longer; what came before is kept. */
  max_bytes: number;
  /** Ends the reading; what came before is kept. */
  signal?: AbortSignal;
  /** Told the bytes written with this call, as they come. */
  on_bytes?: (bytes: number) => void;
}

export interface Appended {
  /** Bytes of the upload that no crash takes away any more. */
  size: number;
  /** False when the stream broke off. */
  whole: boolean;
}

/** An upload whose bytes are all there and right. */
export interface Completed {
  /** What came, before it is committed. Read the stream to its end or destroy it. */
  read(range?: BlobRange): Readable;
  /** As `Staged.prepare`. */
  prepare(key: string): Promise<void>;
  /** Makes the bytes readable under `key`, as `Staged.commit` does; the upload is gone then. Called again it does nothing. */
  commit(key: string): Promise<void>;
}

/**
 * Where artifacts lie. Keys are `<org_id>/<sha256>`, in general two parts of letters, digits, `.`, `_` and `-`.
 * Every method rejects with a BlobError or with what the file system or the store said.
 */
export interface Blobs {
  /** Reads the stream to its end. When it rejects nothing is kept, and the stream is left as it was, so that an answer can still be sent. */
  receive(stream: Readable, options: ReceiveOptions): Promise<Staged>;
  /**
   * Adds the stream to the resumable upload `key` and answers how much of it is kept, also when the stream broke off; the
   * stream is left as it was. One call for an upload at a time: the caller sees to that.
   */
  append(key: string, stream: Readable, options: AppendOptions): Promise<Appended>;
  /** Bytes of a resumable upload that no crash takes away any more; 0 when there is none. */
  uploaded(key: string): Promise<number>;
  /** Checks a resumable upload; rejects with `mismatch` when it is not what is expected, and leaves it as it was. */
  complete(key: string, expect: { size: number; sha256: string }): Promise<Completed>;
  /** Forgets a resumable upload; one that does not exist is no error. */
  abandon(key: string): Promise<void>;
  /** Every resumable upload that has bytes, in no order. */
  listUploads(): AsyncIterable<BlobStat>;
  /** `size` is the whole blob's, also for a range. Read the stream to its end or destroy it. Rejects with `not_found`, or `bad_range` past the end. */
  read(key: string, range?: BlobRange): Promise<{ stream: Readable; size: number }>;
  /** undefined when there is no such blob. */
  stat(key: string): Promise<BlobStat | undefined>;
  /** Deleting what is not there is no error. */
  delete(key: string): Promise<void>;
  /** Every blob whose key starts with `prefix`, in no order: `org_1/` for those of one owner, "" for all. */
  list(prefix: string): AsyncIterable<BlobStat>;
  /** Bytes that can still be stored; Infinity where nobody can say. */
  freeBytes(): Promise<number>;
  close(): Promise<void>;
}

export type BlobErrorCode = "bad_key" | "not_found" | "bad_range" | "too_large" | "mismatch" | "no_space" | "interrupted";

/** What a caller can act on; `code` says which. Nothing is kept of a refused upload. */
export class BlobError extends Error {
  readonly code: BlobErrorCode;
  constructor(code: BlobErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BlobError";
    this.code = code;
  }
}
