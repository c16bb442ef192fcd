/** What a person can do about it, by the name that stores give the error. */
const HINTS: Readonly<Record<string, string>> = {
  AccessDenied: "the credentials may not do this: they need to list, read, write and delete there",
  Forbidden: "the credentials may not do this: they need to list, read, write and delete there",
  InvalidAccessKeyId: "the store does not know AWS_ACCESS_KEY_ID",
  SignatureDoesNotMatch: "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID",
  ExpiredToken: "AWS_SESSION_TOKEN has expired",
  InvalidToken: "AWS_SESSION_TOKEN is not one of this store",
  CredentialsProviderError: "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
  NoSuchBucket: "there is no such bucket",
  PermanentRedirect: "the bucket is in another region, or not at this endpoint",
  AuthorizationHeaderMalformed: "the bucket is in another region: say region=… in ROAMFLEET_BLOBS_URL",
  RequestTimeTooSkewed: "the clock of this machine is wrong",
};

/** Passes by itself, although it is 4xx. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);
const MESSAGE_CHARACTERS_MAX = 200;

/**
 * What an S3 store refused or did not answer. Made of name and status alone: the SDK's own errors carry requests and what
 * the store says of keys and signatures, and errors get logged with all that they carry.
 */
export class S3Error extends Error {
  /** As the store named it, for example `NoSuchKey`; `ECONNREFUSED` and the like for what the network said. */
  readonly reason: string;
  /** Of HTTP; undefined when no answer came. */
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

  /** The same for another call that would meet it. */
  during(call: string): S3Error {
    return new S3Error(call, this.reason, this.status, this.#said);
  }

  /** Whether the store gave no answer at all. */
  get is_silence(): boolean {
    return this.status === undefined && !this.stays;
  }

  /** Whether it stays so until somebody changes a setting of the server or of the store. */
  get stays(): boolean {
    if (this.reason === "CredentialsProviderError") return true;
    return this.status !== undefined && this.status >= 300 && this.status < 500 && !PASSING.has(this.status);
  }

  /** Whether the store is full, by the names that stores have for it. */
  get is_full(): boolean {
    return this.status === 507 || /QuotaExceeded|StorageFull|InsufficientStorage|InsufficientCapacity/i.test(this.reason);
  }
}

/** The error of a call to the SDK as one that may be shown. */
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
  // A store's answer may repeat what was sent; of what the network says only the beginning of the first line is of use.
  const said = (message.split("\n", 1)[0] ?? "").slice(0, MESSAGE_CHARACTERS_MAX);
  return new S3Error(call, /^[\w.-]{1,64}$/.test(reason) ? reason : "Unknown", status, said);
}
