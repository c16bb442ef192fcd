import { createServer as createHttpServer, type IncomingMessage, type Server as HttpServer } from "node:http";
import { type AddressInfo, createServer as createNetServer, isIP, type Server as NetServer, type Socket } from "node:net";
import { createServer, type Server as TlsServer, type TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";
import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import { networkOf } from "../../kernel/networks.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";
import type { RunCertificate } from "../../kernel/tls/certificate-authority.ts";
import { type HostPort, nodeTls, parseAddress, peerFingerprint, steady } from "./connect-node.ts";

/**
 * Maximum concurrent handshakes, in total and per network. A network is known if a verified node connected from it or advertises an address
 * in it.
 */
export const UNKNOWN_HANDSHAKES_MAX = 128;
export const UNKNOWN_HANDSHAKES_PER_NETWORK_MAX = 64;
const KNOWN_HANDSHAKES_MAX = 512;
export const KNOWN_HANDSHAKES_PER_NETWORK_MAX = 256;
/** Handshake rate of one unknown network. A handshake costs about 1 ms of a core. */
export const UNKNOWN_RATE = { per_minute: 1_200, burst: 200 };
/** Maximum known networks. Beyond it, the least recently used one is evicted. */
const KNOWN_NETWORKS_MAX = 1_000;

/**
 * Decides which connections to the listener for other nodes may start a TLS handshake. Any machine that reaches the port can connect. So
 * known networks have separate slots, and all others share few slots, at a limited rate.
 */
export class HandshakeAdmission {
  readonly #known = new LRUCache<string, true>({ max: KNOWN_NETWORKS_MAX });
  readonly #by_network = new Map<string, number>();
  readonly #rate: RateLimit;
  #unknown = 0;
  #of_nodes = 0;

  constructor(clock: Clock) {
    this.#rate = new RateLimit(clock, "node handshakes", UNKNOWN_RATE);
  }

  /** Records that a node proved its identity from this address. */
  remember(address: string): void {
    this.#known.set(networkOf(address), true);
  }

  /** Takes a handshake slot. Returns the function that releases it, or undefined if there is none. */
  enter(address: string): (() => void) | undefined {
    const network = networkOf(address);
    const of_network = this.#by_network.get(network) ?? 0;
    const is_known = this.#known.has(network);
    if (of_network >= (is_known ? KNOWN_HANDSHAKES_PER_NETWORK_MAX : UNKNOWN_HANDSHAKES_PER_NETWORK_MAX)) return undefined;
    if (is_known ? this.#of_nodes >= KNOWN_HANDSHAKES_MAX : this.#unknown >= UNKNOWN_HANDSHAKES_MAX) return undefined;
    if (!is_known && !this.#rate.tryTake(network, 1)) return undefined;
    if (is_known) this.#of_nodes += 1;
    else this.#unknown += 1;
    this.#by_network.set(network, of_network + 1);
    return once(() => {
      if (is_known) this.#of_nodes -= 1;
      else this.#unknown -= 1;
      const left = (this.#by_network.get(network) ?? 1) - 1;
      if (left > 0) this.#by_network.set(network, left);
      else this.#by_network.delete(network);
    });
  }
}

function once(release: () => void): () => void {
  let is_released = false;
  return () => {
    if (is_released) return;
    is_released = true;
    release();
  };
}

/** Time limit for the TLS handshake. The same limit applies to the first request after it. */
const SILENT_TIMEOUT_MS = 5_000;
/** Maximum concurrent lookups of certificates. Further connections are closed. */
const UNKNOWN_MAX = 256;
/**
 * Minimum interval between log lines about refused connections, because anyone who reaches the port can cause them. Each line has the
 * number of refused connections.
 */
const WARN_EVERY_MS = 60_000;
/** Maximum size of request headers. The headers of a forwarded viewer's request, with the viewer's identity, are smaller. */
const HEADER_BYTES_MAX = 64 * 1024;

export type NodeUpgrade = (request: IncomingMessage, socket: TLSSocket, head: Buffer) => void;

interface NodeListenerOptions {
  listen: HostPort;
  pair: RunCertificate;
  /** Returns whether a certificate belongs to a living node. */
  knows: (fingerprint: string) => Promise<boolean>;
  clock: Clock;
  log: Logger;
  onRefused: () => void;
}

/** Accepts connections of other nodes only. Other connections are closed before any of their data is processed. */
export class NodeListener {
  readonly #options: NodeListenerOptions;
  readonly #net: NetServer;
  readonly #tls: TlsServer;
  readonly #admission: HandshakeAdmission;
  readonly #http: HttpServer;
  readonly #sockets = new Set<Socket>();
  /** Functions that release the handshake slots of open connections, by the peer's address and port. */
  readonly #places = new Map<string, () => void>();
  #unknown = 0;
  #refused = 0;
  #warned_at: number | undefined;
  #upgrade: NodeUpgrade | undefined;

  private constructor(options: NodeListenerOptions) {
    this.#options = options;
    this.#admission = new HandshakeAdmission(options.clock);
    this.#http = createHttpServer({ maxHeaderSize: HEADER_BYTES_MAX }, (_request, response) => {
      response.writeHead(404, { "content-length": "0", connection: "close" }).end();
    });
    this.#http.timeout = SILENT_TIMEOUT_MS;
    this.#http.on("upgrade", (request, socket, head) => {
      const tls = socket as TLSSocket;
      tls.on("error", () => tls.destroy());
      // The upgrade handler sets its own timeouts.
      tls.setTimeout(0);
      if (this.#upgrade === undefined) tls.destroy();
      else this.#upgrade(request, tls, head);
    });
    this.#tls = createServer({ ...nodeTls(options.pair), handshakeTimeout: SILENT_TIMEOUT_MS }, (socket) => void this.#greet(socket));
    this.#tls.on("tlsClientError", (_error, socket) => {
      this.#refuse("its TLS handshake failed", socket.remoteAddress);
      socket.destroy();
    });
    this.#net = createNetServer((socket) => this.#admit(socket));
  }

  /** Opens a listener. Rejects if it cannot listen on the address. */
  static async open(options: NodeListenerOptions): Promise<NodeListener> {
    const listener = new NodeListener(options);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    listener.#net.once("error", reject);
    listener.#net.listen(options.listen, resolve);
    await promise;
    listener.#net.on("error", (error) => options.log.error({ err: error }, "the listener for other servers failed"));
    return listener;
  }

  get port(): number {
    return (this.#net.address() as AddressInfo).port;
  }

  /** Sets the handler of upgrade requests from other nodes. */
  onUpgrade(take: NodeUpgrade): void {
    this.#upgrade = take;
  }

  /** Records the address that a node advertises: connections from there get the slots of known networks. */
  expect(address: string): void {
    const host = parseAddress(address)?.host;
    if (host !== undefined && isIP(host) !== 0) this.#admission.remember(host);
  }

  /** Stops listening and closes open connections. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#net.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    this.#http.close();
  }

  /**
   * Takes a handshake slot for a new connection, or closes it if there is none. The TLS handshake starts only after that, because it is the
   * most expensive operation that a stranger can cause.
   */
  #admit(socket: Socket): void {
    const address = socket.remoteAddress;
    const leave = address === undefined ? undefined : this.#admission.enter(address);
    if (leave === undefined) {
      this.#refuse("too many TLS handshakes from its network", address);
      socket.destroy();
      return;
    }
    const peer = peerOf(socket);
    this.#places.set(peer, leave);
    this.#sockets.add(socket);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      this.#places.delete(peer);
      leave();
    });
    this.#tls.emit("connection", socket);
  }

  async #greet(socket: TLSSocket): Promise<void> {
    socket.on("error", () => socket.destroy());
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    const fingerprint = peerFingerprint(socket);
    const answer = fingerprint === undefined ? "unknown" : await this.#lookUp(fingerprint);
    if (answer !== "known") {
      const reason = answer === "unknown" ? "not a server of this installation" : "could not look up the certificate";
      this.#refuse(reason, socket.remoteAddress);
      socket.destroy();
      return;
    }
    this.#places.get(peerOf(socket))?.();
    if (socket.remoteAddress !== undefined) this.#admission.remember(socket.remoteAddress);
    steady(socket);
    if (!socket.destroyed) this.#http.emit("connection", socket);
  }

  /** Counts a refused connection, and logs the number once a minute. */
  #refuse(reason: string, peer: string | undefined): void {
    const { clock, log, onRefused } = this.#options;
    onRefused();
    this.#refused += 1;
    const now = clock.monotonic();
    if (this.#warned_at !== undefined && now - this.#warned_at < WARN_EVERY_MS) return;
    this.#warned_at = now;
    log.warn({ peer, reason, refused: this.#refused }, "refused connections to the port for other servers");
    this.#refused = 0;
  }

  async #lookUp(fingerprint: string): Promise<"known" | "unknown" | "no answer"> {
    if (this.#unknown >= UNKNOWN_MAX) return "no answer";
    this.#unknown += 1;
    try {
      return (await this.#options.knows(fingerprint)) ? "known" : "unknown";
    } catch (error) {
      this.#options.log.debug({ err: error }, "could not look up the certificate of a connection");
      return "no answer";
    } finally {
      this.#unknown -= 1;
    }
  }
}

/** Returns the peer's address and port, which are equal for a TCP socket and the TLS socket on top of it. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;
