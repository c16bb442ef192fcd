import { networkInterfaces } from "node:os";
import { connect, type TlsOptions, type TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";
import { parseFingerprint } from "@roamfleet/protocol/authority";
import type { RunCertificate } from "../../kernel/tls/certificate-authority.ts";

export interface HostPort {
  host: string;
  port: number;
}

const WILDCARDS = new Set(["0.0.0.0", "::"]);

/** Formats `host:port`, with an IPv6 address in brackets. */
export const addressText = ({ host, port }: HostPort): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** Parses the format of `addressText`; undefined if invalid. */
export function parseAddress(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port > 65_535 ? undefined : { host, port };
}

/** Returns the host by which other machines likely reach a listener: for a wildcard, the first IPv4 address that is not loopback. */
export function reachableHost(listens_on: string, interfaces = networkInterfaces()): string {
  if (!WILDCARDS.has(listens_on)) return listens_on;
  const found = Object.values(interfaces)
    .flat()
    .find((one) => one !== undefined && !one.internal && one.family === "IPv4");
  return found?.address ?? "127.0.0.1";
}

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

/** Disables Nagle's algorithm, so that small messages are sent without delay, and enables TCP keepalive, which detects a lost peer. */
export function steady(socket: TLSSocket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
}

/** Timeout of a connection to another node. A node on the same network responds within milliseconds. */
const CONNECT_TIMEOUT_MS = 3_000;

/** Connects to a node and verifies its certificate. If that fails, rejects with a reason for the log, before any data is sent. */
export function connectNode(
  node: { address: string; tls_fingerprint: string },
  pair: RunCertificate,
  clock: Pick<Clock, "setTimer">,
): Promise<TLSSocket> {
  const address = parseAddress(node.address);
  if (address === undefined) return Promise.reject(new Error("its address is invalid"));
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connect({ ...address, ...nodeTls(pair), checkServerIdentity: () => undefined });
  const late = clock.setTimer(CONNECT_TIMEOUT_MS, () => reject(new Error("does not answer")));
  socket.on("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
  socket.once("close", () => reject(new Error("closed the connection")));
  socket.once("secureConnect", () => {
    if (peerFingerprint(socket) !== node.tls_fingerprint) return reject(new Error("has another certificate"));
    steady(socket);
    resolve(socket);
  });
  promise.catch(() => socket.destroy());
  return promise.finally(() => late.cancel());
}
