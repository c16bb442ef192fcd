import { X509Certificate } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent, type RequestOptions } from "node:https";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { checkServerIdentity, type DetailedPeerCertificate, rootCertificates, TLSSocket } from "node:tls";

export interface ServerAgentOptions {
  /** PEM of the only authority that is trusted; absent: those that the machine knows. */
  ca?: string | undefined;
  /** HTTPS_PROXY, HTTP_PROXY, NO_PROXY and their lower-case forms count. */
  environment: Readonly<Record<string, string>>;
  /** Milliseconds since 1970 that it is at least, whatever the robot's clock shows. */
  least: () => number;
  /** The certificate is not valid yet by the robot's clock, and was accepted all the same. */
  early?: () => void;
}

const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
const CHAIN_MAX = 10;
/** Longest silence of a connection, or of the proxy, before it is secure: a server to which every robot returns shakes hands with the last in 45 s. */
const SECURE_MS_MAX = 60_000;

/** Opens the agent's connections to its server: through the proxy of the environment, with certificates checked by `certificateFault`. */
export function serverAgent(server: string, options: ServerAgentOptions): HttpAgent {
  const { environment: proxyEnv } = options;
  return server.startsWith("https:") ? new CheckingAgent(options) : new HttpAgent({ keepAlive: false, proxyEnv });
}

type Created = (error: Error | null, socket: Duplex) => void;

/** Hands a connection over once its certificate is accepted: before that nothing is sent. */
class CheckingAgent extends HttpsAgent {
  readonly #options: ServerAgentOptions;

  constructor(options: ServerAgentOptions) {
    // No resumed sessions: they carry no certificate to check.
    super({
      keepAlive: false,
      proxyEnv: options.environment,
      maxCachedSessions: 0,
      // The channel that the robot signs for exists from here on.
      minVersion: "TLSv1.3",
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
      socket.setTimeout(SECURE_MS_MAX, () => settle(new Error(`no secure connection within ${SECURE_MS_MAX / 1_000} s`)));
      // With a proxy this is the way to it, and the callback gets the connection through it.
      if (!(socket instanceof TLSSocket)) return;
      socket.once("error", (error) => settle(error));
      socket.once("close", () => settle(new Error("the connection was closed before it was secure")));
      if (isSecured(socket)) check(socket);
      else socket.once("secureConnect", () => check(socket));
    };
    const insecurely = { ...options, rejectUnauthorized: false };
    take(super.createConnection(insecurely, (error, socket) => (error ? settle(error) : take(socket))));
    return undefined;
  }
}

/** Whether the handshake of a connection is over. */
export const isSecured = (socket: TLSSocket): boolean => socket.getProtocol() !== null && socket.getPeerX509Certificate() !== undefined;

/**
 * Why the server's certificate is refused; undefined when it is accepted. OpenSSL judges it by the robot's clock. Two things differ:
 *
 * - A certificate that is not valid yet is judged here, without its first day: a clock that is behind (a robot without battery boots in 1970) is
 *   likely, and a certificate of the trusted authority that was issued ahead of its time is no attack. Chain, host name, purpose and last day are checked.
 * - One that has expired by `least` is refused, though the robot's clock is behind. Of a chain that OpenSSL accepted this is the server's own alone, of
 *   another one the certificates up to the trusted authority: what else a server sends may be old.
 */
function certificateFault(socket: TLSSocket, host: string, { ca, least, early }: ServerAgentOptions): Error | undefined {
  const chain = chainOf(socket);
  let used = chain.slice(0, 1);
  if (!socket.authorized) {
    const code = String(socket.authorizationError);
    if (code !== "CERT_NOT_YET_VALID") return refused(code);
    const path = trustedPath(socket, host, chain, ca === undefined ? rootCertificates : [ca]);
    if (typeof path === "string") return refused(path);
    used = path;
    early?.();
  }
  const expired = used.find((certificate) => Date.parse(certificate.validTo) < least());
  if (expired === undefined) return undefined;
  const at = new Date(least()).toISOString();
  return Object.assign(new Error(`the server's certificate expired on ${expired.validTo}, and it is at least ${at}`), {
    code: "CERT_HAS_EXPIRED",
  });
}

const refused = (code: string): Error => Object.assign(new Error(`the server's certificate was refused (${code})`), { code });

/** The server's certificate first. */
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

/** The certificates up to the one that a trusted authority signed, or what is wrong about them but their dates: signatures, host name, purpose. */
function trustedPath(
  socket: TLSSocket,
  host: string,
  chain: readonly X509Certificate[],
  trusted: readonly string[],
): X509Certificate[] | string {
  const [leaf] = chain;
  if (leaf === undefined) return "UNABLE_TO_GET_ISSUER_CERT";
  if (checkServerIdentity(host, socket.getPeerCertificate()) !== undefined) return "ERR_TLS_CERT_ALTNAME_INVALID";
  // Extended key usages; a certificate without any may serve as anything.
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
