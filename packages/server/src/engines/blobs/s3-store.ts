import type { Readable } from "node:stream";
import type * as Sdk from "@aws-sdk/client-s3";
import { systemClock } from "@roamfleet/clock";
import type { EngineLog } from "../log.ts";
import { BlobError, type BlobRange } from "./blobs.ts";
import { toS3Error } from "./s3-error.ts";
import { S3Silence } from "./s3-silence.ts";
import type { S3Place } from "./s3-url.ts";

const CONNECT_MS = 5_000;
/**
 * Nothing moved to or from the store for so long: it is gone, or the network in between. Not the length of a request, which is that of
 * a segment over a slow line.
 */
const QUIET_MS = 10_000;
/** So many times as long while a store copies or joins: some say nothing, MinIO a blank every ten seconds. */
const WORK_QUIET_FACTOR = 2;
/** Of that in all, with its tries: whoever commits waits for it in a transaction, which the database ends after 60 s. */
const WORK_MS = 45_000;
/** Until the headers of an answer, however slowly the body of the request moves: 16 MiB at 2 Mbit/s. */
const SEND_MS = 70_000;
const PAUSE_MS = 1_000;
/** The first try and two more, at most seconds apart, by the SDK's own policy: for 5xx, 429, silence and lost connections. */
const TRIES = 3;
/** One for each download under way; more wait for one to end. */
const SOCKETS_MAX = 512;

export interface S3Settings extends S3Place {
  region: string;
  /** undefined: the machine's own (a role of the instance, of the container, of the pod), as the SDK finds them. */
  credentials: { access_key_id: string; secret_access_key: string; session_token: string | undefined } | undefined;
}

/** An object; `key` without the prefix of the place. */
export interface S3Object {
  key: string;
  /** bytes */
  size: number;
  stored_at: Date;
}

export interface S3Part {
  number: number;
  etag: string;
}

export interface S3Patience {
  /** Of each call. */
  tries?: number | undefined;
  /** A store from which nothing comes for so long has forgotten us; 10 s unless told. */
  quiet_ms?: number | undefined;
  /** Nobody asks a store that was silent for so long; 1 s unless told. */
  pause_ms?: number | undefined;
}

/** Loads the SDK, which a server without S3 never does: 0.3 s and 12 MB. */
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
    // The signature covers a SHA-256 of every body already; the newer checksums are unknown to many stores.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    // Asking before it sends, the SDK opens a connection for each segment and waits for the word as long as for an answer.
    expectContinueHeader: false,
    // Its errors hold requests; ours are said by whoever catches them.
    logger: { trace: quiet, debug: quiet, info: quiet, error: quiet, warn: () => log.warn({}, "the S3 client warns of something") },
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
  // The body is watched by whoever reads it: a robot that takes its time is no silence of the store.
  const reading = new sdk.S3Client({ ...config, credentials: known, requestHandler: { ...bounds, requestTimeout: quiet_ms } });
  return new S3Store(sdk, { talking, working, reading }, { ...settings, quiet_ms, pause_ms });
}

/** One for each way to wait. */
interface Clients {
  talking: Sdk.S3Client;
  /** While the store does something long by itself. */
  working: Sdk.S3Client;
  /** For as long as somebody reads. */
  reading: Sdk.S3Client;
}

/**
 * The few calls of S3 that blobs need, below the prefix of a place. Everything rejects with an S3Error, or with `no_space`; when the
 * store is gone, within TRIES times QUIET_MS and a few seconds, or WORK_MS of what it does by itself.
 */
export class S3Store {
  readonly #sdk: typeof Sdk;
  readonly #clients: Clients;
  readonly #silence: S3Silence;
  readonly #bucket: string;
  readonly #prefix: string;
  /** For whoever reads a body. */
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

  /** Resolves when the store lets us look into the place. */
  async check(): Promise<void> {
    const page = new this.#sdk.ListObjectsV2Command({ Bucket: this.#bucket, Prefix: this.#prefix, MaxKeys: 1 });
    await this.#call("ListObjectsV2", () => this.#clients.talking.send(page));
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    const put = new this.#sdk.PutObjectCommand({ ...this.#at(key), Body: body, ContentLength: body.byteLength });
    await this.#call("PutObject", () => this.#clients.talking.send(put));
  }

  /** `size` is the whole object's, also for a range; the range may end past the object's end. Rejects with reason `NoSuchKey` or `InvalidRange`. */
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

  /** undefined when there is no such object. */
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

  /** Deleting what is not there is no error. */
  async remove(key: string): Promise<void> {
    try {
      await this.#call("DeleteObject", () => this.#clients.talking.send(new this.#sdk.DeleteObjectCommand(this.#at(key))));
    } catch (error) {
      if (toS3Error("DeleteObject", error).reason !== "NoSuchKey") throw error;
    }
  }

  /** In the store, at once, for objects up to 5 GiB. */
  async copy(from: string, to: string): Promise<void> {
    const copy = new this.#sdk.CopyObjectCommand({ ...this.#at(to), CopySource: this.#source(from) });
    await this.#work("CopyObject", (abortSignal) => this.#clients.working.send(copy, { abortSignal }));
  }

  /** Every object whose key begins with `prefix`, in the order of keys, as S3 has it. */
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

  /** Begins an object of parts, with a word in its metadata; answers the id of the beginning. */
  async beginParts(key: string, metadata: Record<string, string>): Promise<string> {
    const begin = new this.#sdk.CreateMultipartUploadCommand({ ...this.#at(key), Metadata: metadata });
    const { UploadId } = await this.#call("CreateMultipartUpload", () => this.#clients.talking.send(begin));
    if (UploadId === undefined) throw toS3Error("CreateMultipartUpload", { name: "AnswerWithoutId" });
    return UploadId;
  }

  /** Makes a whole object a part; all but the last have at least 5 MiB. */
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

  /** The object is there with this, whole. */
  async completeParts(key: string, id: string, parts: readonly S3Part[]): Promise<void> {
    const complete = new this.#sdk.CompleteMultipartUploadCommand({
      ...this.#at(key),
      UploadId: id,
      MultipartUpload: { Parts: parts.map(({ number, etag }) => ({ PartNumber: number, ETag: etag })) },
    });
    await this.#work("CompleteMultipartUpload", (abortSignal) => this.#clients.working.send(complete, { abortSignal }));
  }

  /** Aborting what is not there is no error. */
  async abortParts(key: string, id: string): Promise<void> {
    try {
      const abort = new this.#sdk.AbortMultipartUploadCommand({ ...this.#at(key), UploadId: id });
      await this.#call("AbortMultipartUpload", () => this.#clients.talking.send(abort));
    } catch (error) {
      if (toS3Error("AbortMultipartUpload", error).reason !== "NoSuchUpload") throw error;
    }
  }

  /** Objects of parts that were begun and neither completed nor aborted. */
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

  /** Keys hold nothing that would have to be encoded. */
  #source(key: string): string {
    return `${this.#bucket}/${this.#prefix}${key}`;
  }

  /** A call with which the store does something long by itself. */
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
      const told = toS3Error(name, error);
      if (told.is_full) throw new BlobError("no_space", "there is no space left for blobs", { cause: told });
      throw told;
    }
  }
}
