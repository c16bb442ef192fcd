import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions, createSecureContext } from "node:tls";
import type { OpenSocket, SocketAddress } from "@robofleet/agent/parts";

/** As many as keep one process busy while answers are on their way. */
export const OPENING_MAX = 64;

/**
 * Opens the connections of all robots of a process, a bounded number of handshakes at a time, in the order in which they are asked for.
 *
 * A robot shakes hands on its own processor. A process that begins thousands at once has none of them done before the first
 * ones are past their patience, and then begins all of them anew. What their certificates are checked by is made once, too.
 */
export class Opening {
  readonly #tls: ConnectionOptions;
  /** Each robot has one at most, and those that stopped meanwhile are still among them. */
  readonly #waiting: { open: () => void; signal: AbortSignal }[] = [];
  #under_way = 0;

  /** `ca`: PEM of the only authority that is trusted; absent: those that the machine knows. */
  constructor(ca: string | undefined) {
    this.#tls = { secureContext: createSecureContext(ca === undefined ? {} : { ca }) };
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

  #begin({ host, port, is_secure }: SocketAddress): Socket {
    const servername = isIP(host) === 0 ? host : "";
    const socket = is_secure ? connectTls({ host, port, servername, ...this.#tls }) : connectTcp({ host, port });
    const over = (): void => {
      socket.off("secureConnect", over).off("connect", over).off("close", over);
      this.#under_way -= 1;
      this.#advance();
    };
    socket.once(is_secure ? "secureConnect" : "connect", over).once("close", over);
    // Whoever asked listens for it, unless it has given up meanwhile.
    socket.on("error", () => {});
    return socket;
  }
}
