import type { TLSSocket, TlsOptions } from "node:tls";
import { parseFingerprint } from "@roamfleet/protocol/authority";
import type { RunCertificate } from "../../kernel/tls/index.ts";

/** How soon the kernel asks whether a node that says nothing is still there; ten answers a second apart may fail to come. */
const KEEP_ALIVE_MS = 10_000;

/**
 * Both ends show a certificate and neither asks an authority about the other's: the handshake proves that it has the key, and the
 * database says whether the key is a node's.
 */
export const nodeTls = ({ cert, key }: RunCertificate) =>
  ({ cert, key, minVersion: "TLSv1.3", maxVersion: "TLSv1.3", requestCert: true, rejectUnauthorized: false }) as const satisfies TlsOptions;

/** Of the certificate that the other end showed; undefined when it showed none. */
export function peerFingerprint(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  return certificate === undefined ? undefined : parseFingerprint(certificate.fingerprint256);
}

/** Small messages leave at once, and an end that is gone without a word is noticed. */
export function steady(socket: TLSSocket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
}
