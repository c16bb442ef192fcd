import type { TLSSocket, TlsOptions } from "node:tls";
import { parseFingerprint } from "@roamfleet/protocol/authority";
import type { RunCertificate } from "../../kernel/tls/index.ts";

/** TCP keepalive: the first probe is sent after this idle time. Ten unanswered probes, a second apart, close the connection. */
const KEEP_ALIVE_MS = 10_000;

/**
 * TLS options for nodes. Both ends present a self-signed certificate without CA verification. The handshake proves possession of the key,
 * and the database lists the certificates of the nodes.
 */
export const nodeTls = ({ cert, key }: RunCertificate) =>
  ({ cert, key, minVersion: "TLSv1.3", maxVersion: "TLSv1.3", requestCert: true, rejectUnauthorized: false }) as const satisfies TlsOptions;

/** Returns the fingerprint of the peer's certificate; undefined if it has none. */
export function peerFingerprint(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  return certificate === undefined ? undefined : parseFingerprint(certificate.fingerprint256);
}

/** Sends small messages without delay and detects a lost peer. */
export function steady(socket: TLSSocket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
}
