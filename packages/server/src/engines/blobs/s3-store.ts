import type { Readable } from "node:stream";
import type * as Sdk from "@aws-sdk/client-s3";
import { systemClock } from "@roamfleet/clock";
import type { EngineLog } from "../log.ts";
import { BlobError, type BlobRange } from "./blobs.ts";
import { S3Silence, toS3Error } from "./s3-error.ts";
import type { S3Place } from "./s3-url.ts";

const CONNECT_MS = 5_000;
/**
 * Idle timeout: a request without any traffic for this long is aborted, because the store or the network is down. A request with traffic
 * may take longer, such as sending a segment over a slow line.
 */
const QUIET_MS = 10_000;
/** Factor for QUIET_MS while a store copies or joins objects. Some stores send nothing meanwhile, and MinIO sends a blank every 10 s. */
const WORK_QUIET_FACTOR = 2;
/** Timeout of a copy or join, including retries. Callers wait for it in a transaction, which the database aborts after 60 s. */
const WORK_MS = 45_000;
/** Timeout from the start of a request to its response headers. It is long enough to send 16 MiB at 2 Mbit/s. */
const SEND_MS = 70_000;
const PAUSE_MS = 1_000;
/** Maximum attempts of a call, including the first. The SDK retries within seconds after 5xx, 429, timeouts and lost connections. */
const TRIES = 3;
/** Maximum connections. Each running download uses one. When all are in use, further downloads wait. */
const SOCKETS_MAX = 512;

export interface S3Settings extends S3Place {
  region: string;
  /** Undefined: the SDK finds the credentials of the instance, container or pod. */
  credentials: { access_key_id: string; secret_access_key: string; session_token: string | undefined } | undefined;
}

/** A stored object. Its `key` is relative to the prefix in the settings. */
export interface S3Object {
  key: string;
  /** Size in bytes. */
  size: number;
  stored_at: Date;
}

export interface S3Part {
  number: number;
  etag: string;
}

export interface S3Patience {
  /** Maximum attempts of each call, including the first. */
  tries?: number | undefined;
  /** Idle timeout of a request: without traffic for this long, it is aborted. Default: 10 s. */
  quiet_ms?: number | undefined;
  /** How long no call is sent after a timeout. Default: 1 s. */
  pause_ms?: number | undefined;
}

/** Opens a store. Loads the SDK on demand, because it takes 0.3 s and 12 MB. */
export async function openS3(settings: S3Settings, log: EngineLog, options: S3Patience = {}): Promise<S3Store> {
  const { tries = TRIES, quiet_ms = QUIET_MS, pause_ms = PAUSE_MS } = options;
  const sdk = await import("@aws-sdk/client-s3");
  const { endpoint, region, path_style, credentials } = settings;
  const quiet = (): void => {};
  const config: Sdk.S3ClientConfig = {
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle: path_style,
    ...(credentials === undefined
      ? {}
      : {
          credentials: {
            accessKeyId: credentials.access_key_id,
            secretAccessKey: credentials.secret_access_key,
            ...(credentials.session_token === undefined ? {} : { sessionToken: credentials.session_token }),
          },
        }),
    maxAttempts: tries,
    // The signature already covers a SHA-256 of every body, and many stores do not support the newer checksums.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    // Disabled, because with `Expect: 100-continue` the SDK opens a connection for each segment and waits for a full response timeout.
    expectContinueHeader: false,
    // The SDK must not log errors, because they contain requests. Callers log them as S3Error, which is safe.
    logger: { trace: quiet, debug: quiet, info: quiet, error: quiet, warn: () => log.warn({}, "the S3 client logged a warning") },
  };
  const sockets = { keepAlive: true, maxSockets: SOCKETS_MAX };
  const bounds = { connectionTimeout: CONNECT_MS, throwOnRequestTimeout: true, httpAgent: sockets, httpsAgent: sockets };
  const talking = new sdk.S3Client({ ...config, requestHandler: { ...bounds, requestTimeout: SEND_MS, socketTimeout: quiet_ms } });
  const { credentials: known } = talking.config;
  const working = new sdk.S3Client({
    ...config,
    credentials: known,
    requestHandler: { ...bounds, socketTimeout: quiet_ms * WORK_QUIET_FACTOR },
  });
  // This client has no socket timeout. `readPieces` has a timeout that excludes the time that a slow robot takes to read.
  const reading = new sdk.S3Client({ ...config, credentials: known, requestHandler: { ...bounds, requestTimeout: quiet_ms } });
  return new S3Store(sdk, { talking, working, reading }, { ...settings, quiet_ms, pause_ms });
}

/** S3 clients that differ in their timeouts. */
interface Clients {
  talking: Sdk.S3Client;
  /** For calls that make the store copy data, which may take long. */
  working: Sdk.S3Client;
  /** For reading bodies. It has no time limit for the whole body. */
  reading: Sdk.S3Client;
}

/**
 * The S3 calls that blobs need. Keys are relative to the prefix in the settings. Calls reject with an S3Error, or with `no_space` if the
 * store is full. If the store is unreachable, they reject within TRIES × QUIET_MS and a few seconds; copies and joins within WORK_MS.
 */
export class S3Store {
  readonly #sdk: typeof Sdk;
  readonly #clients: Clients;
  readonly #silence: S3Silence;
  readonly #bucket: string;
  readonly #prefix: string;
  /** Idle timeout for readers of a body. */
  readonly quiet_ms: number;

  constructor(sdk: typeof Sdk, clients: Clients, options: Pick<S3Place, "bucket" | "prefix"> & Record<"quiet_ms" | "pause_ms", number>) {
    const { bucket, prefix, quiet_ms, pause_ms } = options;
    this.#silence = new S3Silence(pause_ms);
    this.quiet_ms = quiet_ms;
    this.#sdk = sdk;
    this.#clients = clients;
    this.#bucket = bucket;
    this.#prefix = prefix === "" ? "" : `${prefix}/`;
  }

  /** Checks that the store responds and allows access, by listing one object. Rejects otherwise. */
  async check(): Promise<void> {
    const page = new this.#sdk.ListObjectsV2Command({ Bucket: this.#bucket, Prefix: this.#prefix, MaxKeys: 1 });
    await this.#call("ListObjectsV2", () => this.#clients.talking.send(page));
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    const put = new this.#sdk.PutObjectCommand({ ...this.#at(key), Body: body, ContentLength: body.byteLength });
    await this.#call("PutObject", () => this.#clients.talking.send(put));
  }

  /**
   * Reads an object or a range of it. `size` is the size of the whole object, even for a range. A range may end past the object's end.
   * Rejects with reason `NoSuchKey` or `InvalidRange`.
   */
  async get(key: string, range?: BlobRange, etag?: string): Promise<{ body: Readable; size: number; etag: string | undefined }> {
    const get = new this.#sdk.GetObjectCommand({
      ...this.#at(key),
      ...(range === undefined ? {} : { Range: `bytes=${range.start}-${range.end}` }),
      ...(etag === undefined ? {} : { IfMatch: etag }),
    });
    const { Body, ContentLength, ContentRange, ETag } = await this.#call("GetObject", () => this.#clients.reading.send(get));
    const body = Body as Readable;
    const size = range === undefined ? ContentLength : Number(/\/(\d+)$/.exec(ContentRange ?? "")?.[1]);
    if (size !== undefined && Number.isSafeInteger(size)) return { body, size, etag: ETag };
    body.destroy();
    throw toS3Error("GetObject", { name: "AnswerWithoutSize" });
  }

  /** Returns an object's size and metadata; undefined if there is no such object. */
  async head(key: string): Promise<(S3Object & { metadata: Readonly<Record<string, string>> }) | undefined> {
    try {
      const head = new this.#sdk.HeadObjectCommand(this.#at(key));
      const { ContentLength, LastModified, Metadata } = await this.#call("HeadObject", () => this.#clients.talking.send(head));
      return { key, size: ContentLength ?? 0, stored_at: LastModified ?? new Date(0), metadata: Metadata ?? {} };
    } catch (error) {
      if (toS3Error("HeadObject", error).status === 404) return undefined;
      throw error;
    }
  }

  /** Removes an object. Succeeds if it does not exist. */
  async remove(key: string): Promise<void> {
    try {
      await this.#call("DeleteObject", () => this.#clients.talking.send(new this.#sdk.DeleteObjectCommand(this.#at(key))));
    } catch (error) {
      if (toS3Error("DeleteObject", error).reason !== "NoSuchKey") throw error;
    }
  }

  /** Copies an object of up to 5 GiB within the store, in one call. */
  async copy(from: string, to: string): Promise<void> {
    const copy = new this.#sdk.CopyObjectCommand({ ...this.#at(to), CopySource: this.#source(from) });
    await this.#work("CopyObject", (abortSignal) => this.#clients.working.send(copy, { abortSignal }));
  }

  /** Lists the objects whose keys start with `prefix`, ordered by key. */
  async *list(prefix: string): AsyncGenerator<S3Object> {
    for (let token: string | undefined, more = true; more;) {
      const page = new this.#sdk.ListObjectsV2Command({
        Bucket: this.#bucket,
        Prefix: this.#prefix + prefix,
        ...(token === undefined ? {} : { ContinuationToken: token }),
      });
      const {
        Contents = [],
        IsTruncated,
        NextContinuationToken,
      } = await this.#call("ListObjectsV2", () => this.#clients.talking.send(page));
      for (const { Key = "", Size = 0, LastModified = new Date(0) } of Contents)
        yield { key: Key.slice(this.#prefix.length), size: Size, stored_at: LastModified };
      token = NextContinuationToken;
      more = IsTruncated === true && token !== undefined;
    }
  }

  /** Starts a multipart upload with metadata. Returns its id. */
  async beginParts(key: string, metadata: Record<string, string>): Promise<string> {
    const begin = new this.#sdk.CreateMultipartUploadCommand({ ...this.#at(key), Metadata: metadata });
    const { UploadId } = await this.#call("CreateMultipartUpload", () => this.#clients.talking.send(begin));
    if (UploadId === undefined) throw toS3Error("CreateMultipartUpload", { name: "AnswerWithoutId" });
    return UploadId;
  }

  /** Copies a whole object as one part of a multipart upload. All parts except the last must have at least 5 MiB. */
  async copyPart(key: string, id: string, number: number, from: string): Promise<S3Part> {
    const copy = new this.#sdk.UploadPartCopyCommand({
      ...this.#at(key),
      UploadId: id,
      PartNumber: number,
      CopySource: this.#source(from),
    });
    const { CopyPartResult } = await this.#work("UploadPartCopy", (abortSignal) => this.#clients.working.send(copy, { abortSignal }));
    if (CopyPartResult?.ETag === undefined) throw toS3Error("UploadPartCopy", { name: "AnswerWithoutETag" });
    return { number, etag: CopyPartResult.ETag };
  }

  /** Completes a multipart upload: the object appears atomically. */
  async completeParts(key: string, id: string, parts: readonly S3Part[]): Promise<void> {
    const complete = new this.#sdk.CompleteMultipartUploadCommand({
      ...this.#at(key),
      UploadId: id,
      MultipartUpload: { Parts: parts.map(({ number, etag }) => ({ PartNumber: number, ETag: etag })) },
    });
    await this.#work("CompleteMultipartUpload", (abortSignal) => this.#clients.working.send(complete, { abortSignal }));
  }

  /** Aborts a multipart upload. Succeeds if it does not exist. */
  async abortParts(key: string, id: string): Promise<void> {
    try {
      const abort = new this.#sdk.AbortMultipartUploadCommand({ ...this.#at(key), UploadId: id });
      await this.#call("AbortMultipartUpload", () => this.#clients.talking.send(abort));
    } catch (error) {
      if (toS3Error("AbortMultipartUpload", error).reason !== "NoSuchUpload") throw error;
    }
  }

  /** Lists multipart uploads that were neither completed nor aborted. */
  async *listParts(prefix: string): AsyncGenerator<{ key: string; id: string; begun_at: Date }> {
    for (let after: { KeyMarker: string; UploadIdMarker: string } | undefined, more = true; more;) {
      const page = new this.#sdk.ListMultipartUploadsCommand({ Bucket: this.#bucket, Prefix: this.#prefix + prefix, ...after });
      const answer = await this.#call("ListMultipartUploads", () => this.#clients.talking.send(page));
      for (const { Key = "", UploadId = "", Initiated = new Date(0) } of answer.Uploads ?? [])
        yield { key: Key.slice(this.#prefix.length), id: UploadId, begun_at: Initiated };
      after = { KeyMarker: answer.NextKeyMarker ?? "", UploadIdMarker: answer.NextUploadIdMarker ?? "" };
      more = answer.IsTruncated === true && after.KeyMarker !== "";
    }
  }

  close(): void {
    for (const client of Object.values<Sdk.S3Client>({ ...this.#clients })) client.destroy();
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: this.#prefix + key };
  }

  /** Returns the source of a copy as S3 expects it. Keys contain only characters that need no URL encoding. */
  #source(key: string): string {
    return `${this.#bucket}/${this.#prefix}${key}`;
  }

  /** Runs a call that makes the store copy data, which may take long. Aborts it after WORK_MS. */
  async #work<T>(name: string, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController();
    const timer = systemClock.setTimer(WORK_MS, () => late.abort());
    try {
      return await this.#call(name, () => send(late.signal));
    } finally {
      timer.cancel();
    }
  }

  async #call<T>(name: string, send: () => Promise<T>): Promise<T> {
    try {
      return await this.#silence.unless(name, send);
    } catch (error) {
      const s3_error = toS3Error(name, error);
      if (s3_error.is_full) throw new BlobError("no_space", "there is no space left for artifacts", { cause: s3_error });
      throw s3_error;
    }
  }
}
