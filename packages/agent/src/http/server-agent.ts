import { X509Certificate } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent, type RequestOptions } from "node:https";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import tls, { checkServerIdentity, type DetailedPeerCertificate, TLSSocket } from "node:tls";
import { ROBOT_ALPN_PROTOCOLS } from "@roamfleet/protocol/link";

interface ServerAgentOptions {
  /** PEM of the only trusted authority; absent: the machine's trusted authorities. */
  ca?: string | undefined;
  /** Environment variables, which may contain HTTPS_PROXY, HTTP_PROXY, NO_PROXY and their lower-case forms. */
  environment: Readonly<Record<string, string>>;
  /** Returns a lower bound of the current time, milliseconds since 1970, independent of the robot's clock. */
  least: () => number;
  /** Called when a certificate was accepted that is not valid yet by the robot's clock. */
  early?: () => void;
}

const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
const CHAIN_MAX = 10;
/**
 * Idle timeout of a connection until TLS is established, also while it goes through a proxy. When all robots reconnect, the server needs up
 * to 45 s for a handshake.
 */
const SECURE_MS_MAX = 60_000;

/**
 * Returns the HTTP agent for connections to the server. It uses the proxy of the environment and checks certificates with
 * `certificateFault`.
 */
export function serverAgent(server: string, options: ServerAgentOptions): HttpAgent {
  const { environment: proxyEnv } = options;
  return server.startsWith("https:") ? new CheckingAgent(options) : new HttpAgent({ keepAlive: false, proxyEnv });
}

type Created = (error: Error | null, socket: Duplex) => void;

/** HTTPS agent that returns a connection only after its certificate is accepted, so that nothing is sent to an unverified server. */
class CheckingAgent extends HttpsAgent {
  readonly #options: ServerAgentOptions;

  constructor(options: ServerAgentOptions) {
    // No session resumption: a resumed session has no certificate to check.
    super({
      keepAlive: false,
      proxyEnv: options.environment,
      maxCachedSessions: 0,
      // The robot's signature contains the TLS channel binding, which requires TLS 1.3.
      minVersion: "TLSv1.3",
      ALPNProtocols: [...ROBOT_ALPN_PROTOCOLS],
      ...(options.ca === undefined ? {} : { ca: options.ca }),
    });
    this.#options = options;
  }

  override createConnection(options: RequestOptions, created: Created): Duplex | null | undefined {
    let is_settled = false;
    const waiting: Socket[] = [];
    const settle = (error: Error | null, socket?: Duplex): void => {
      if (is_settled) return;
      is_settled = true;
      for (const one of waiting) one.setTimeout(0);
      if (error !== null) for (const one of waiting) one.destroy();
      created(error, socket!);
    };
    const check = (socket: TLSSocket): void => settle(certificateFault(socket, options.host ?? "", this.#options) ?? null, socket);
    const take = (socket: Duplex | null | undefined): void => {
      if (!(socket instanceof Socket)) return;
      waiting.push(socket);
      socket.setTimeout(SECURE_MS_MAX, () => settle(new Error(`no TLS connection within ${SECURE_MS_MAX / 1_000} s`)));
      // With a proxy, this socket is the connection to the proxy. The callback receives the TLS connection through it, so return here.
      if (!(socket instanceof TLSSocket)) return;
      socket.once("error", (error) => settle(error));
      socket.once("close", () => settle(new Error("the connection was closed before the TLS handshake finished")));
      if (isSecured(socket)) check(socket);
      else socket.once("secureConnect", () => check(socket));
    };
    const insecurely = { ...options, rejectUnauthorized: false };
    take(super.createConnection(insecurely, (error, socket) => (error ? settle(error) : take(socket))));
    return undefined;
  }
}

/** Returns whether the TLS handshake of a connection is complete. */
export const isSecured = (socket: TLSSocket): boolean => socket.getProtocol() !== null && socket.getPeerX509Certificate() !== undefined;

/**
 * Returns why the server's certificate is refused; undefined if it is accepted. OpenSSL checks it by the robot's clock; this function
 * changes the result in two cases:
 *
 * - A certificate that is not valid yet is checked again without its start date: chain, host name, purpose and end date. The clock is
 *   probably behind, since a robot without a battery boots in 1970. A certificate that a trusted authority issued ahead of time is no
 *   attack.
 * - A certificate that expired before `least` is refused, even if the robot's clock is behind. If OpenSSL accepted the chain, only the
 *   server's own certificate is checked this way. Otherwise all certificates up to the trusted authority are checked. Other certificates
 *   that the server sends may have expired.
 */
function certificateFault(socket: TLSSocket, host: string, { ca, least, early }: ServerAgentOptions): Error | undefined {
  const chain = chainOf(socket);
  let used = chain.slice(0, 1);
  if (!socket.authorized) {
    const code = String(socket.authorizationError);
    if (code !== "CERT_NOT_YET_VALID") return refused(code);
    const path = trustedPath(socket, host, chain, ca === undefined ? tls.rootCertificates : [ca]);
    if (typeof path === "string") return refused(path);
    used = path;
    early?.();
  }
  const expired = used.find((certificate) => Date.parse(certificate.validTo) < least());
  if (expired === undefined) return undefined;
  const at = new Date(least()).toISOString();
  return Object.assign(new Error(`the server's certificate expired on ${expired.validTo}, and the current time is at least ${at}`), {
    code: "CERT_HAS_EXPIRED",
  });
}

const refused = (code: string): Error => Object.assign(new Error(`the server's certificate was refused (${code})`), { code });

/** Returns the certificate chain that the server sent, beginning with the server's own certificate. */
function chainOf(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  const seen = new Set<string>();
  for (
    let at: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
    at?.raw !== undefined && !seen.has(at.fingerprint256) && chain.length < CHAIN_MAX;
    at = at.issuerCertificate
  ) {
    seen.add(at.fingerprint256);
    chain.push(new X509Certificate(at.raw));
  }
  return chain;
}

/**
 * Returns the server's certificate chain up to the certificate that a trusted authority signed. Returns an error code instead if a
 * signature, the host name or the purpose is wrong. Does not check dates.
 */
function trustedPath(
  socket: TLSSocket,
  host: string,
  chain: readonly X509Certificate[],
  trusted: readonly string[],
): X509Certificate[] | string {
  const [leaf] = chain;
  if (leaf === undefined) return "UNABLE_TO_GET_ISSUER_CERT";
  if (checkServerIdentity(host, socket.getPeerCertificate()) !== undefined) return "ERR_TLS_CERT_ALTNAME_INVALID";
  // `keyUsage` lists the extended key usages. A certificate without any is valid for all purposes.
  if (leaf.keyUsage !== undefined && !leaf.keyUsage.includes(SERVER_AUTH)) return "INVALID_PURPOSE";
  const anchors = trusted.map((pem) => new X509Certificate(pem));
  for (const [index, certificate] of chain.entries()) {
    if (anchors.some((anchor) => isIssuedBy(certificate, anchor))) return chain.slice(0, index + 1);
    const issuer = chain[index + 1];
    if (issuer === undefined || !isIssuedBy(certificate, issuer)) return "UNABLE_TO_GET_ISSUER_CERT_LOCALLY";
  }
  return "CERT_CHAIN_TOO_LONG";
}

const isIssuedBy = (certificate: X509Certificate, issuer: X509Certificate): boolean =>
  issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
