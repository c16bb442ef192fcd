import type { Server } from "node:https";
import { isDeepStrictEqual } from "node:util";
import type { SecureContextOptions, TlsOptions } from "node:tls";

/** What the files of a data directory cannot be used for, in words for people. */
export class TlsError extends Error {}

/** What a server proves itself with; PEM. */
export interface KeyPair {
  cert: string;
  key: string;
}

/** The TLS side of a listening server. */
export interface Tls {
  /** The pair of this moment. */
  readonly pair: KeyPair;
  /** Certificate and fingerprint of the authority that this server made itself. */
  readonly authority: { pem: string; fingerprint: string; file: string } | undefined;
  /** Keeps a server's pair up to date until `stop`. */
  follow(server: Pick<Server, "setSecureContext">): void;
  stop(): void;
}

const HTTP_1_1 = "http/1.1";

/**
 * TLS 1.2 and 1.3, forward secrecy and authenticated encryption only; the order of Mozilla's intermediate profile.
 *
 * The protocol is chosen as Node does by itself. But that copies the list into each socket, into Node's pool of small buffers, whose
 * 64 KiB stay as long as any of them: up to so much for each robot that is connected.
 */
export const TLS_OPTIONS = {
  minVersion: "TLSv1.2",
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
