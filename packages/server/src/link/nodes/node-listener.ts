import { createServer as createHttpServer, type IncomingMessage, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer, type Server as TlsServer, type TLSSocket } from "node:tls";
import type { Logger } from "pino";
import type { RunCertificate } from "../../kernel/tls/index.ts";
import type { HostPort } from "./address.ts";
import { nodeTls, peerFingerprint, steady } from "./node-tls.ts";

/** For the handshake, and again for the first request. */
const SILENT_TIMEOUT_MS = 5_000;
/** Connections whose certificate is being looked up; more are cut. */
const UNKNOWN_MAX = 256;
/** What a viewer asks for, and who it is. */
const HEADER_BYTES_MAX = 64 * 1024;

export type NodeUpgrade = (request: IncomingMessage, socket: TLSSocket, head: Buffer) => void;

export interface NodeListenerOptions {
  listen: HostPort;
  pair: RunCertificate;
  /** Whether a certificate is that of a node that lives. */
  knows: (fingerprint: string) => Promise<boolean>;
  log: Logger;
  onRefused: () => void;
}

/** Where other nodes connect, and nobody else: who is none is cut before anything that it says is looked at. */
export class NodeListener {
  readonly #options: NodeListenerOptions;
  readonly #tls: TlsServer;
  readonly #http: HttpServer;
  readonly #sockets = new Set<TLSSocket>();
  #unknown = 0;
  #upgrade: NodeUpgrade | undefined;

  private constructor(options: NodeListenerOptions) {
    this.#options = options;
    this.#http = createHttpServer({ maxHeaderSize: HEADER_BYTES_MAX }, (_request, response) => {
      response.writeHead(404, { "content-length": "0", connection: "close" }).end();
    });
    this.#http.timeout = SILENT_TIMEOUT_MS;
    this.#http.on("upgrade", (request, socket, head) => {
      const tls = socket as TLSSocket;
      tls.on("error", () => tls.destroy());
      // Whoever takes it answers it.
      tls.setTimeout(0);
      if (this.#upgrade === undefined) tls.destroy();
      else this.#upgrade(request, tls, head);
    });
    this.#tls = createServer({ ...nodeTls(options.pair), handshakeTimeout: SILENT_TIMEOUT_MS }, (socket) => void this.#greet(socket));
    this.#tls.on("tlsClientError", (_error, socket) => {
      options.onRefused();
      socket.destroy();
    });
  }

  /** Rejects when it cannot listen there. */
  static async open(options: NodeListenerOptions): Promise<NodeListener> {
    const listener = new NodeListener(options);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    listener.#tls.once("error", reject);
    listener.#tls.listen(options.listen, resolve);
    await promise;
    listener.#tls.on("error", (error) => options.log.error({ err: error }, "the listener for other servers failed"));
    return listener;
  }

  get port(): number {
    return (this.#tls.address() as AddressInfo).port;
  }

  /** Who takes the upgrade requests of other nodes. */
  onUpgrade(take: NodeUpgrade): void {
    this.#upgrade = take;
  }

  /** Listens no more, and cuts what is still open. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#tls.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    this.#http.close();
  }

  async #greet(socket: TLSSocket): Promise<void> {
    socket.on("error", () => socket.destroy());
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    const fingerprint = peerFingerprint(socket);
    if (fingerprint === undefined || this.#unknown >= UNKNOWN_MAX || !(await this.#knows(fingerprint))) {
      this.#options.onRefused();
      this.#options.log.warn({ peer: socket.remoteAddress }, "refused a connection that is no server's of this installation");
      socket.destroy();
      return;
    }
    steady(socket);
    if (!socket.destroyed) this.#http.emit("connection", socket);
  }

  async #knows(fingerprint: string): Promise<boolean> {
    this.#unknown += 1;
    try {
      return await this.#options.knows(fingerprint);
    } catch (error) {
      this.#options.log.warn({ err: error }, "could not look up who connects");
      return false;
    } finally {
      this.#unknown -= 1;
    }
  }
}
