import { systemClock } from "@roamfleet/clock";

/** Explanations of errors for people, by the store's error name. */
const HINTS: Readonly<Record<string, string>> = {
  AccessDenied: "permission denied: the credentials need permission to list, read, write and delete objects there",
  Forbidden: "permission denied: the credentials need permission to list, read, write and delete objects there",
  InvalidAccessKeyId: "AWS_ACCESS_KEY_ID does not exist in the store",
  SignatureDoesNotMatch: "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID",
  ExpiredToken: "AWS_SESSION_TOKEN has expired",
  InvalidToken: "AWS_SESSION_TOKEN is not valid for this store",
  CredentialsProviderError: "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
  NoSuchBucket: "there is no such bucket",
  PermanentRedirect: "the bucket is in another region, or not at this endpoint",
  AuthorizationHeaderMalformed: "the bucket is in another region: set region=… in ROAMFLEET_BLOBS_URL",
  RequestTimeTooSkewed: "the clock of this machine is wrong",
};

/** The 4xx status codes of temporary errors. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);
const MESSAGE_CHARACTERS_MAX = 200;

/**
 * An error or timeout of an S3 store, safe to log. Contains only the name and status, and a short message if there was no response. The
 * SDK's own errors must not be logged, because they contain requests, and responses that quote keys and signatures.
 */
export class S3Error extends Error {
  /** Error name of the store, such as `NoSuchKey`, or error code of the network, such as `ECONNREFUSED`. */
  readonly reason: string;
  /** HTTP status; undefined without a response. */
  readonly status: number | undefined;
  readonly #said: string;

  constructor(call: string, reason: string, status: number | undefined, said: string) {
    const hint = HINTS[reason] ?? (status === undefined ? said : "");
    super(`S3 store, ${call}: ${reason}${status === undefined ? "" : ` (HTTP ${status})`}${hint === "" ? "" : `: ${hint}`}`);
    this.name = "S3Error";
    this.reason = reason;
    this.status = status;
    this.#said = status === undefined ? said : "";
  }

  /** Returns a copy of this error with `call` as the name of the failed call. */
  during(call: string): S3Error {
    return new S3Error(call, this.reason, this.status, this.#said);
  }

  /** Returns whether the store did not respond. */
  get is_silence(): boolean {
    return this.status === undefined && !this.stays;
  }

  /** Returns whether the error will recur until someone changes a setting of the server or the store. */
  get stays(): boolean {
    if (this.reason === "CredentialsProviderError") return true;
    return this.status !== undefined && this.status >= 300 && this.status < 500 && !PASSING.has(this.status);
  }

  /** Returns whether the store is full, by the error names of common stores. */
  get is_full(): boolean {
    return this.status === 507 || /QuotaExceeded|StorageFull|InsufficientStorage|InsufficientCapacity/i.test(this.reason);
  }
}

/** Converts an error of the SDK to an S3Error, which is safe to show. */
export function toS3Error(call: string, error: unknown): S3Error {
  if (error instanceof S3Error) return error;
  const {
    name = "",
    code,
    message = "",
    $metadata,
  } = error as Partial<Error> & { code?: unknown; $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode;
  const reason = typeof code === "string" && status === undefined ? code : name;
  // The start of the first line explains a network error. A store's response is not used, because it may repeat the request.
  const said = (message.split("\n", 1)[0] ?? "").slice(0, MESSAGE_CHARACTERS_MAX);
  return new S3Error(call, /^[\w.-]{1,64}$/.test(reason) ? reason : "Unknown", status, said);
}

/**
 * A circuit breaker for the store. It opens when a call gets no response. While it is open, one call at a time probes the store, and all
 * others fail immediately. They must not wait, because they may occupy a database connection, a lock or the memory of an upload.
 */
export class S3Silence {
  #reason: S3Error | undefined;
  #asked_again = false;
  /** Time of the next allowed probe, by the system clock: network timeouts elapse even if a test stops the simulated clock. */
  #next_at = 0;
  readonly #pause_ms: number;

  /** Creates the breaker. After a call without a response, no call is sent for `pause_ms`. */
  constructor(pause_ms: number) {
    this.#pause_ms = pause_ms;
  }

  /** Sends a call, or rejects with an S3Error if the breaker is open. */
  async unless<T>(call: string, send: () => Promise<T>): Promise<T> {
    const asks_again = this.#reason !== undefined;
    if (this.#reason !== undefined) {
      if (this.#asked_again || systemClock.monotonic() < this.#next_at) throw this.#reason.during(call);
      this.#asked_again = true;
    }
    try {
      const answer = await send();
      this.#reason = undefined;
      return answer;
    } catch (error) {
      const s3_error = toS3Error(call, error);
      this.#reason = s3_error.is_silence ? s3_error : undefined;
      this.#next_at = systemClock.monotonic() + this.#pause_ms;
      throw s3_error;
    } finally {
      if (asks_again) this.#asked_again = false;
    }
  }
}
