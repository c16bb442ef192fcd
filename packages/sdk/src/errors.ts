import { type Clock, systemClock } from "@roamfleet/clock";

/** Thrown for an error response of the service. Code and message come from the error object in the JSON body, if there is one. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  /** Code of the error object in the response body, or `http_error` without one. */
  readonly code: string;
  /** The response body: parsed if it was JSON, otherwise its text. */
  readonly body: unknown;
  readonly retry_after_seconds: number | undefined;
  readonly request_id: string | undefined;

  constructor(answer: { status: number; headers: Headers; body: unknown }) {
    const envelope = readEnvelope(answer.body);
    super(envelope?.message ?? unexplained(answer.status, answer.headers));
    this.status = answer.status;
    this.code = envelope?.code ?? "http_error";
    this.body = answer.body;
    this.retry_after_seconds = retryAfterSeconds(answer.headers);
    this.request_id = answer.headers.get("x-request-id") ?? undefined;
  }
}

/** Thrown if no response was received. The message never contains the URL's query, which may contain a token. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
  readonly base_url: string;
  /** Code of the system or TLS error, such as ECONNREFUSED, or `timeout`. */
  readonly reason: string;

  constructor(base_url: string, reason: string, cause?: unknown) {
    super(`cannot reach ${base_url}: ${REASONS[reason] ?? reason}`, { cause });
    this.base_url = base_url;
    this.reason = reason;
  }

  /** True if no trusted authority signed the server's certificate. */
  get untrusted(): boolean {
    return UNTRUSTED.has(this.reason);
  }

  /** True if the same call can succeed later. False, for example, for a certificate that is not trusted. */
  get passing(): boolean {
    return !LASTING.has(this.reason);
  }
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: "nothing listens there (connection refused)",
  ECONNRESET: "the connection was lost",
  EPIPE: "the connection was lost",
  UND_ERR_SOCKET: "the connection was lost",
  ENOTFOUND: "the host name is unknown",
  EAI_AGAIN: "the host name could not be looked up",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no network",
  ETIMEDOUT: "no answer in time",
  UND_ERR_CONNECT_TIMEOUT: "no answer in time",
  timeout: "no answer in time",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed and not trusted here",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is signed by an authority not trusted here",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is signed by an authority not trusted here",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "its certificate is signed by an authority not trusted here",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
  CERT_HAS_EXPIRED: "its certificate has expired",
  ERR_SSL_WRONG_VERSION_NUMBER: "the server does not use TLS at this address (http:// instead of https://?)",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "the server does not use TLS at this address (http:// instead of https://?)",
  EPROTO: "the server does not use TLS at this address (http:// instead of https://?)",
  HPE_INVALID_CONSTANT: "the server does not use plain HTTP at this address (https:// instead of http://?)",
};

const UNTRUSTED = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "CERT_SIGNATURE_FAILURE",
]);

const LASTING = new Set([
  ...UNTRUSTED,
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "CERT_HAS_EXPIRED",
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_SSL_PACKET_LENGTH_TOO_LONG",
  "EPROTO",
  "HPE_INVALID_CONSTANT",
]);

/** Converts the error of a socket, of TLS or of fetch to an Unreachable. */
export function unreachable(base_url: string, error: unknown): Unreachable {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth += 1) {
    if ("code" in at && typeof at.code === "string") return new Unreachable(base_url, at.code, error);
    const first = at instanceof AggregateError ? (at.errors[0] as unknown) : undefined;
    if (first instanceof Error && "code" in first && typeof first.code === "string") return new Unreachable(base_url, first.code, error);
  }
  return new Unreachable(base_url, "the connection failed", error);
}

/** Returns the seconds of Retry-After, a number or a date; undefined if absent or invalid. */
export function retryAfterSeconds(headers: Headers, clock: Pick<Clock, "now"> = systemClock): number | undefined {
  const text = headers.get("retry-after");
  if (text === null) return undefined;
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - clock.now().getTime()) / 1000);
}

function readEnvelope(body: unknown): { code: string; message: string } | undefined {
  if (typeof body !== "object" || body === null || !("error" in body)) return undefined;
  const { error } = body;
  if (typeof error !== "object" || error === null || !("code" in error) || !("message" in error)) return undefined;
  return { code: String(error.code), message: String(error.message) };
}

function unexplained(status: number, headers: Headers): string {
  const target = headers.get("location");
  if (status >= 300 && status < 400 && target !== null)
    return `the server redirects to ${target.split("?")[0]}: use that address as base URL`;
  if (status < 300)
    return `this does not look like Roamfleet: status ${status} with ${headers.get("content-type") ?? "no content type"} where JSON was expected`;
  return `the server returned ${status} without an error message`;
}
