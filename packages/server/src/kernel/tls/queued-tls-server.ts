import type { RequestListener } from "node:http";
import { Server, type ServerOptions } from "node:https";
import type { Socket } from "node:net";
import { ROBOT_ALPN } from "@roamfleet/protocol/link";
import type { TlsHandshakeQueue } from "./handshake-queue.ts";

/**
 * Maximum bytes that are buffered for a queued client: one TLS record with its header. A ClientHello is smaller, and the client sends
 * nothing more until the server responds.
 */
const HELLO_BYTES_MAX = 16 * 1024 + 5;

/**
 * An HTTPS server with a queue that decides when handshakes start. A client enters the queue with its first byte, which must arrive within
 * `first_byte_ms`, so that silent clients take no slot. Data that the client sends is buffered until its handshake starts.
 *
 * Node starts the handshake in its listener of the event `connection`, and documents that emitting this event injects a connection. So this
 * class delays the event until the client's turn. Node has no option for that. With a separate TCP server in front, `listen` and `address`
 * of this server would not work.
 */
export class QueuedTlsServer extends Server {
  readonly #queue: TlsHandshakeQueue;
  readonly #first_byte_ms: number;

  constructor(
    { queue, first_byte_ms, ...options }: ServerOptions & { queue: TlsHandshakeQueue; first_byte_ms: number },
    handler: RequestListener,
  ) {
    super(options, handler);
    this.#queue = queue;
    this.#first_byte_ms = first_byte_ms;
    // Each handshake ends with one of these events. Timeouts and disconnects emit `tlsClientError`, too.
    this.on("secureConnection", () => queue.ended());
    this.on("tlsClientError", () => queue.ended());
  }

  override emit(event: string, ...args: unknown[]): boolean {
    if (event !== "connection") return super.emit(event, ...args);
    this.#queue.connected();
    this.#enqueue(args[0] as Socket);
    return true;
  }

  #enqueue(socket: Socket): void {
    const received: Buffer[] = [];
    let bytes = 0;
    let leave = ignore;
    const drop = (): void => void socket.destroy();
    const gone = (): void => leave();
    // Reads while the client is queued, because a disconnect would not be noticed otherwise.
    const receive = (): void => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      received.push(chunk);
      bytes += chunk.length;
      if (bytes > HELLO_BYTES_MAX) return drop();
      if (received.length > 1) return;
      socket.setTimeout(0);
      // The ClientHello is not encrypted. Only a robot, or a client that wants to wait longer, contains this name.
      leave = this.#queue.join({ address: socket.remoteAddress ?? "", is_robot: chunk.includes(ROBOT_ALPN), start, sendAway: drop });
    };
    const start = (): boolean => {
      if (socket.destroyed) return false;
      socket.off("readable", receive).off("end", drop).off("timeout", drop).off("close", gone).off("error", ignore);
      socket.unshift(Buffer.concat(received));
      super.emit("connection", socket);
      return true;
    };
    socket.on("readable", receive).on("end", drop).on("timeout", drop).on("close", gone).on("error", ignore);
    socket.setTimeout(this.#first_byte_ms);
  }
}

/** Does nothing. After an error, a close event follows. */
const ignore = (): void => {};
