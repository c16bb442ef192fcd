import { ERROR_STATUS, type ErrorCode, type ErrorEnvelope, type HttpErrorStatus, SECRET_PATTERN } from "@roamfleet/protocol";

export interface FaultOptions {
  /** Status of an `http_error`. */
  status?: HttpErrorStatus;
  headers?: Record<string, string>;
  /** Details that are logged and never sent to the client. */
  detail?: Record<string, unknown>;
}

/** An error returned to the client. `message` is public: it names the kind and the id or field, never a secret, a stack or SQL. */
export class Fault extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly detail: Record<string, unknown>;

  constructor(code: ErrorCode, message: string, options: FaultOptions = {}) {
    super(message);
    this.name = "Fault";
    this.code = code;
    this.status = options.status ?? ERROR_STATUS[code];
    this.headers = options.headers ?? {};
    this.detail = options.detail ?? {};
  }

  get body(): ErrorEnvelope {
    return { error: { code: this.code, message: this.message } };
  }
}

export const badRequest = (message: string): Fault => new Fault("bad_request", message);
export const conflict = (message: string): Fault => new Fault("conflict", message);
export const forbidden = (message: string): Fault => new Fault("forbidden", message);
export const unauthorized = (message: string): Fault =>
  new Fault("unauthorized", message, { headers: { "www-authenticate": 'Bearer realm="roamfleet"' } });

/**
 * Returns a 401 for a known secret that is no longer valid. Such a secret is not a guess, so the request does not count as a failed
 * attempt.
 */
export const unauthorizedKnown = (message: string): Fault =>
  new Fault("unauthorized", message, { headers: unauthorized(message).headers, detail: { known: true } });

/** Returns a 404. It is also used for objects of other orgs, whose existence is secret. The id comes from the client and is truncated. */
export const notFound = (kind: string, id: string): Fault => new Fault("not_found", `${kind} ${printable(id)} does not exist`);

/** Returns `row`. Throws 404 if it is undefined. */
export function found<T>(row: T | undefined, kind: string, id: string): T {
  if (row === undefined) throw notFound(kind, id);
  return row;
}

export const httpError = (status: HttpErrorStatus, message: string, headers: Record<string, string> = {}): Fault =>
  new Fault("http_error", message, { status, headers });

/** Retry delay while the disk is full: an administrator must free space first. */
const DISK_FULL_RETRY_SECONDS = "10";
/** `outcome` states the effect on the request, such as "nothing was written". */
export const diskFull = (outcome: string): Fault =>
  httpError(503, `the server's disk is full, ${outcome}; try again when its administrator has freed space`, {
    "retry-after": DISK_FULL_RETRY_SECONDS,
  });

const SHOWN_CHARACTERS_MAX = 80;

/** Formats client input for a one-line message: quoted if ambiguous, truncated, without control characters and secrets. */
export function printable(sent: string): string {
  const text = sent.replace(SECRET_PATTERN, "[secret]");
  const cut = text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
  // Escaped: V8 stores a program with one such character in two bytes per character.
  return /^[\w.:@/-]+\u2026?$/.test(cut) ? cut : JSON.stringify(cut.toWellFormed()).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "?");
}
