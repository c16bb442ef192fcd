import type { Readable } from "node:stream";
import type * as Sdk from "@aws-sdk/client-s3";
import { systemClock } from "@roamfleet/clock";
import type { EngineLog } from "../log.ts";
import { BlobError, type BlobRange } from "./blobs.ts";
import { S3Silence, toS3Error } from "./s3-error.ts";
import type { S3Place } from "./s3-url.ts";

const CONNECT_MS = 5_000;
/**
 * A request without any traffic for this long is aborted: the store or the network is down. It does not limit a whole request, such as
 * sending a segment over a slow line.
 */
const QUIET_MS = 10_000;
/** Factor of the timeout while a store copies or joins objects: some send nothing meanwhile, MinIO a blank every ten seconds. */
const WORK_QUIET_FACTOR = 2;
/** Limit of such a call with its retries: callers wait in a transaction, which the database aborts after 60 s. */
const WORK_MS = 45_000;
/** Timeout until the response headers, however slowly the request body is sent: 16 MiB at 2 Mbit/s. */
const SEND_MS = 70_000;
const PAUSE_MS = 1_000;
/** The first attempt and two retries, at most seconds apart, by the SDK's policy: for 5xx, 429, timeouts and lost connections. */
const TRIES = 3;
/** One for each running download. More downloads wait for one to end. */
const SOCKETS_MAX = 512;

export interface S3Settings extends S3Place {
  region: string;
  /** Undefined: the SDK finds the credentials of the instance, container or pod. */
  credentials: { access_key_id: string; secret_access_key: string; session_token: string | undefined } | undefined;
}

/** An object; `key` is relative to the place's prefix. */
export interface S3Object {
  key: string;
  /** Bytes. */
  size: number;
  stored_at: Date;
}

export interface S3Part {
  number: number;
  etag: string;
}

export interface S3Patience {
  /** Attempts of each call. */
  tries?: number | undefined;
  /** A request without traffic for this long is aborted. Default: 10 s. */
  quiet_ms?: number | undefined;
  /** After a timeout, no call is sent for this long. Default: 1 s. */
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
    // With `Expect: 100-continue` the SDK would open a connection per segment and wait as long as for a response.
    expectContinueHeader: false,
    // The SDK's errors contain requests. They are logged by the callers in a safe form.
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
  // The reader of a body has its own timeout: a slow robot is not a silent store.
  const reading = new sdk.S3Client({ ...config, credentials: known, requestHandler: { ...bounds, requestTimeout: quiet_ms } });
  return new S3Store(sdk, { talking, working, reading }, { ...settings, quiet_ms, pause_ms });
}

/** One client for each kind of timeout. */
interface Clients {
  talking: Sdk.S3Client;
  /** For calls during which the store copies data for a long time. */
  working: Sdk.S3Client;
  /** For reading bodies, which may take any time. */
  reading: Sdk.S3Client;
}

/**
 * The S3 calls that blobs need, below the prefix of a place. All reject with an S3Error or with `no_space`. If the store is unreachable,
 * they reject within TRIES × QUIET_MS and a few seconds, or within WORK_MS for long operations of the store.
 */
export class S3Store {
  readonly #sdk: typeof Sdk;
  readonly #clients: Clients;
  readonly #silence: S3Silence;
  readonly #bucket: string;
  readonly #prefix: string;
  /** Timeout for readers of a body. */
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

  /** Resolves if the store allows listing the place. */
  async check(): Promise<void> {
    const page = new this.#sdk.ListObjectsV2Command({ Bucket: this.#bucket, Prefix: this.#prefix, MaxKeys: 1 });
    await this.#call("ListObjectsV2", () => this.#clients.talking.send(page));
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    const put = new this.#sdk.PutObjectCommand({ ...this.#at(key), Body: body, ContentLength: body.byteLength });
    await this.#call("PutObject", () => this.#clients.talking.send(put));
  }

  /**
   * Reads an object. `size` is the whole object's, also for a range, which may end past the object's end. Rejects with reason `NoSuchKey`
   * or `InvalidRange`.
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

  /** Returns undefined if there is no such object. */
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

  /** Removes an object. It is no error if there is none. */
  async remove(key: string): Promise<void> {
    try {
      await this.#call("DeleteObject", () => this.#clients.talking.send(new this.#sdk.DeleteObjectCommand(this.#at(key))));
    } catch (error) {
      if (toS3Error("DeleteObject", error).reason !== "NoSuchKey") throw error;
    }
  }

  /** Copies an object inside the store, in one call, up to 5 GiB. */
  async copy(from: string, to: string): Promise<void> {
    const copy = new this.#sdk.CopyObjectCommand({ ...this.#at(to), CopySource: this.#source(from) });
    await this.#work("CopyObject", (abortSignal) => this.#clients.working.send(copy, { abortSignal }));
  }

  /** Lists objects whose key starts with `prefix`, ordered by key as in S3. */
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

  /** Copies a whole object as a part. All parts but the last must have at least 5 MiB. */
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

  /** Aborts a multipart upload. It is no error if there is none. */
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

  /** Keys contain no characters that need encoding. */
  #source(key: string): string {
    return `${this.#bucket}/${this.#prefix}${key}`;
  }

  /** Runs a call during which the store copies data for a long time. */
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
      if (s3_error.is_full) throw new BlobError("no_space", "there is no space left for blobs", { cause: s3_error });
      throw s3_error;
    }
  }
}
