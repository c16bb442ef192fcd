import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions, createSecureContext } from "node:tls";
import type { OpenSocket, SocketAddress } from "@roamfleet/agent/parts";
import { ROBOT_ALPN_PROTOCOLS } from "@roamfleet/protocol/link";

/** Maximum concurrent handshakes. Enough to keep one process busy while responses are in transit. */
export const OPENING_MAX = 64;

/**
 * Opens the connections of all robots of a process in request order, with a bounded number of concurrent handshakes.
 *
 * Real robots perform their handshakes on separate processors. One process that starts thousands concurrently completes none before they
 * time out, and then starts all of them again. All connections share one TLS context.
 */
export class ConnectionOpener {
  readonly #tls: ConnectionOptions;
  /** Queue of requests for a connection, at most one per robot. Requests of stopped robots are skipped when they reach the front. */
  readonly #waiting: { open: () => void; signal: AbortSignal }[] = [];
  #under_way = 0;

  /** `ca` is the PEM of the only trusted certificate authority. If it is undefined, the system's authorities are trusted. */
  constructor(ca: string | undefined) {
    this.#tls = { secureContext: createSecureContext(ca === undefined ? {} : { ca }), ALPNProtocols: [...ROBOT_ALPN_PROTOCOLS] };
  }

  readonly open: OpenSocket = (address, opened, signal) => {
    this.#waiting.push({ open: () => opened(null, this.#begin(address)), signal });
    this.#advance();
  };

  #advance(): void {
    while (this.#under_way < OPENING_MAX) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      if (next.signal.aborted) continue;
      this.#under_way += 1;
      next.open();
    }
  }

  #begin({ host, port, is_secure, session }: SocketAddress): Socket {
    const servername = isIP(host) === 0 ? host : "";
    const socket = is_secure ? connectTls({ host, port, servername, session, ...this.#tls }) : connectTcp({ host, port });
    const over = (): void => {
      socket.off("secureConnect", over).off("connect", over).off("close", over);
      this.#under_way -= 1;
      this.#advance();
    };
    socket.once(is_secure ? "secureConnect" : "connect", over).once("close", over);
    // An error without any listener would crash the process. The caller listens too, unless it has aborted.
    socket.on("error", () => {});
    return socket;
  }
}
