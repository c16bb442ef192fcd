import { hash, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { Agent } from "node:https";
import { type ConnectionOptions, type DetailedPeerCertificate, TLSSocket } from "node:tls";

/**
 * Certificate authorities by fingerprint, as shown by `roamfleet` and pinned by `rf` and `rf-agent`. A fingerprint is `sha256:` and 64
 * lower-case hex digits, over the DER form of the certificate.
 */

/** Thrown if the server presents a certificate authority that this client does not trust. */
export class UntrustedAuthority extends Error {
  /** Fingerprint of the authority that the server presents; undefined if the server sends none that could be pinned. */
  readonly presented: string | undefined;
  constructor(message: string, presented?: string) {
    super(message);
    this.presented = presented;
  }
}

export const fingerprintOf = (pem: string): string => `sha256:${hash("sha256", new X509Certificate(pem).raw)}`;

/** Parses the output of `roamfleet fingerprint` and openssl's `AA:BB:…`; undefined if it is not a SHA-256 fingerprint. */
export function parseFingerprint(text: string): string | undefined {
  const digits = text
    .trim()
    .toLowerCase()
    .replace(/^sha-?256(?: fingerprint)?[:=]/, "")
    .replaceAll(":", "");
  return /^[0-9a-f]{64}$/.test(digits) ? `sha256:${digits}` : undefined;
}

export interface Presented {
  /** Whether the system's authorities trust the server. */
  trusted: boolean;
  /** OpenSSL's reason why the system's authorities do not trust the server; undefined if they do. */
  reason: string | undefined;
  /** The self-signed certificate at the end of the chain; undefined if the server sends none. */
  authority: { pem: string; fingerprint: string; subject: string } | undefined;
}

const PROBE_TIMEOUT_MS = 15_000;

/**
 * Reads a server's certificates without sending application data, through the proxy in `environment` (HTTPS_PROXY, NO_PROXY). Rejects with
 * the socket's error.
 */
export async function readPresented(
  server: string,
  options: { signal?: AbortSignal; environment?: Readonly<Record<string, string | undefined>> } = {},
): Promise<Presented> {
  const url = new URL(server);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const name = isIP(host) === 0 ? { servername: host } : {};
  const socket = await openInsecurely(
    { host, port: Number(url.port || 443), rejectUnauthorized: false, ...name },
    options.environment ?? {},
  );
  return new Promise((resolve, reject) => {
    const end = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    const abort = (): void => end(new Error("aborted"));
    socket.setTimeout(PROBE_TIMEOUT_MS, () =>
      end(Object.assign(new Error(`no response within ${PROBE_TIMEOUT_MS / 1000} s`), { code: "ETIMEDOUT" })),
    );
    options.signal?.addEventListener("abort", abort, { once: true });
    socket.on("error", end);
    socket.on("close", () => {
      options.signal?.removeEventListener("abort", abort);
      reject(Object.assign(new Error("connection lost"), { code: "ECONNRESET" }));
    });
    const look = (): void => {
      const authority = authorityOf(socket.getPeerCertificate(true));
      resolve({
        trusted: socket.authorized,
        reason: socket.authorized ? undefined : String(socket.authorizationError),
        authority,
      });
      socket.destroy();
    };
    if (socket.getProtocol() !== null && socket.getPeerX509Certificate() !== undefined) look();
    else socket.on("secureConnect", look);
    if (options.signal?.aborted) abort();
  });
}

/**
 * Opens a TLS socket without verifying the certificate. If the connection uses a proxy, its TLS handshake is complete when the promise
 * resolves.
 */
function openInsecurely(to: ConnectionOptions, proxyEnv: Readonly<Record<string, string | undefined>>): Promise<TLSSocket> {
  const agent = new Agent({ keepAlive: false, proxyEnv });
  return new Promise((resolve, reject) => {
    const direct = agent.createConnection(to, (error, socket) => {
      if (error) reject(error);
      else if (socket instanceof TLSSocket) resolve(socket);
    });
    if (direct instanceof TLSSocket) resolve(direct);
  });
}

/** Follows the chain from the server's certificate to the self-signed one; undefined if the chain contains none. */
function authorityOf(leaf: DetailedPeerCertificate): Presented["authority"] {
  const seen = new Set<string>();
  for (let at: DetailedPeerCertificate | undefined = leaf; at?.raw !== undefined; at = at.issuerCertificate) {
    if (seen.has(at.fingerprint256)) return undefined;
    seen.add(at.fingerprint256);
    const certificate = new X509Certificate(at.raw);
    if (certificate.subject === certificate.issuer && certificate.verify(certificate.publicKey)) {
      const pem = certificate.toString();
      return { pem, fingerprint: fingerprintOf(pem), subject: certificate.subject.replaceAll("\n", ", ") };
    }
  }
  return undefined;
}

/**
 * Returns the PEM of the authority with this fingerprint that the server presents. Throws UntrustedAuthority if the server presents a
 * different authority, or does not send its authority's certificate.
 */
export function requireFingerprint(presented: Presented, fingerprint: string): string {
  const { authority } = presented;
  if (authority === undefined)
    throw new UntrustedAuthority("the server does not send its authority's certificate, so its fingerprint cannot be verified");
  if (authority.fingerprint !== fingerprint)
    throw new UntrustedAuthority(
      `the server's certificate authority has the fingerprint ${authority.fingerprint}, not ${fingerprint}`,
      authority.fingerprint,
    );
  return authority.pem;
}

/** Error codes for a certificate that is not signed by a trusted authority. */
const UNTRUSTED = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
]);

/** Returns whether a connection failed because no trusted authority signed the server's certificate. */
export const isUntrusted = (code: string | undefined): boolean => code !== undefined && UNTRUSTED.has(code);
