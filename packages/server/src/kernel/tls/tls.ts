import type { Server } from "node:https";
import type { SecureContextOptions, TlsOptions } from "node:tls";
import { isDeepStrictEqual } from "node:util";

/** Thrown if files of a data directory cannot be used for TLS. The message is for people. */
export class TlsError extends Error {}

/** A certificate and its private key, in PEM. */
export interface KeyPair {
  cert: string;
  key: string;
}

/** The certificate of a listening server. */
export interface Tls {
  /** The current pair. */
  readonly pair: KeyPair;
  /** Certificate and fingerprint of the CA that this server created; undefined if the certificate comes from files of the user. */
  readonly authority: { pem: string; fingerprint: string; file: string } | undefined;
  /** Applies each new pair to the server until `stop`. */
  follow(server: Pick<Server, "setSecureContext">): void;
  stop(): void;
}

const HTTP_1_1 = "http/1.1";
const SESSION_SECONDS = 86_400;

/**
 * TLS 1.2 and 1.3 with forward secrecy and authenticated encryption only, in the order of Mozilla's intermediate profile.
 *
 * The ALPN callback selects HTTP/1.1, like Node's default, but takes less memory. The default copies the protocol list for each socket,
 * into Node's pool of small buffers. In the worst case, each robot's copy keeps a 64 KiB slab of the pool in memory.
 *
 * A client may resume its session for a day. Node's default of 5 minutes would end before most robots reconnect. Resumed sessions still
 * have forward secrecy in TLS 1.3, since each has its own key exchange.
 */
export const TLS_OPTIONS = {
  minVersion: "TLSv1.2",
  sessionTimeout: SESSION_SECONDS,
  honorCipherOrder: false,
  ciphers: [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
  ].join(":"),
  ALPNCallback: ({ protocols }) => (protocols.includes(HTTP_1_1) ? HTTP_1_1 : undefined),
} as const satisfies SecureContextOptions & Pick<TlsOptions, "ALPNCallback">;

export const samePair = (a: KeyPair, b: KeyPair): boolean => isDeepStrictEqual(a, b);
