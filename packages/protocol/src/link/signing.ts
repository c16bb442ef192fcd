/**
 * Texts that a robot signs with its key. Each begins with its purpose, so that a signature for one purpose is invalid for another.
 */

/** What a robot signs, in addition to its id, in response to the server's challenge. */
export interface LinkChallenge {
  /** The server's nonce, fresh for each connection. */
  nonce: string;
  /** Host and port of the server, from the robot's config (see `hostOf`). */
  host: string;
  /** The TLS channel between both ends (`channelBinding`), or "" without TLS. */
  channel: string;
}

export const linkChallengeText = (robot_id: string, { nonce, host, channel }: LinkChallenge): string =>
  `roamfleet-link-v2\n${robot_id}\n${host}\n${channel}\n${nonce}`;

/** The parts of a robot's request that its signature covers. */
export interface SignedRequest {
  /** Host and port of the server, as in the challenge of the link. */
  host: string;
  /** The TLS channel of the connection that carries the request (`channelBinding`), or "" without TLS. */
  channel: string;
  method: string;
  path: string;
  /** Milliseconds by the server's clock, derived from the welcome message: a robot's own clock may be wrong. */
  at: number;
  /** Random value for this request only. The server accepts each value once. */
  nonce: string;
}

/** Returns the text that the signature of a robot's HTTP request (artifacts, configs) covers. */
export const httpRequestText = (robot_id: string, { host, channel, method, path, at, nonce }: SignedRequest): string =>
  `roamfleet-http-v3\n${robot_id}\n${host}\n${channel}\n${method}\n${path}\n${at}\n${nonce}`;

export const ROBOT_SIGNATURE_SCHEME = "RobotSignature";

/** Returns the Authorization header of a signed request; `signature` is base64. */
export const robotAuthorization = (robot_id: string, { at, nonce, channel }: SignedRequest, signature: string): string =>
  `${ROBOT_SIGNATURE_SCHEME} ${robot_id}:${at}:${nonce}:${channel}:${signature}`;

/** The server accepts a signed request up to this long before and after the request's `at`. */
export const ROBOT_SIGNATURE_WINDOW_MS = 300_000;
export const REQUEST_NONCE_BYTES = 16;

/** Returns host and port of an http or https address, without the scheme's default port. */
export const hostOf = (server: string): string => new URL(server).host;

/** The methods of a TLS socket that `channelBinding` uses. Node's type is not imported, because browsers load this file too. */
interface BoundSocket {
  getProtocol(): string | null;
  exportKeyingMaterial(length: number, label: string, context: Uint8Array): { toString(encoding: "base64"): string };
}

const BINDING_BYTES = 32;
const BINDING_LABEL = "EXPORTER-Channel-Binding";

/**
 * Returns a text that is the same at both ends of a TLS connection and differs on every other connection (`tls-exporter` of RFC 9266,
 * base64). Returns "" without TLS, and below TLS 1.3, where the exporter does not identify the connection in every case.
 */
export function channelBinding(socket: object): string {
  if (!("exportKeyingMaterial" in socket)) return "";
  const bound = socket as BoundSocket;
  if (bound.getProtocol() !== "TLSv1.3") return "";
  return bound.exportKeyingMaterial(BINDING_BYTES, BINDING_LABEL, new Uint8Array(0)).toString("base64");
}
