import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { Arrival, HandshakeLine } from "./handshake-line.ts";

/** One TLS record with its header. A ClientHello is smaller, and the client sends nothing more until it is answered. */
const HELLO_BYTES_MAX = 16 * 1024 + 5;

/**
 * Lets a queue decide when the server's handshakes start. A client enters the queue with its first byte, which must arrive within
 * `silent_ms`, so that silent clients take no slot. Data that it sends is buffered until its handshake starts.
 */
export function paceHandshakes(server: Server, line: HandshakeLine, silent_ms: number): void {
  // Node's own handler of TCP connections: it starts the handshake.
  const begin = server.listeners("connection");
  server.removeAllListeners("connection");
  const shakeHands = (socket: Socket): void => {
    for (const listener of begin) listener.call(server, socket);
  };
  server.on("connection", (stream) => {
    line.connected();
    // Streams other than sockets do not occur here.
    const socket = stream as Socket;
    waitForTurn(socket, { line, silent_ms, shakeHands });
  });
  // Each handshake ends with one of these events. Timeouts and disconnects are errors, too.
  server.on("secureConnection", () => line.ended());
  server.on("tlsClientError", () => line.ended());
}

interface Waiting {
  line: HandshakeLine;
  silent_ms: number;
  shakeHands: (socket: Socket) => void;
}

function waitForTurn(socket: Socket, { line, silent_ms, shakeHands }: Waiting): void {
  const received: Buffer[] = [];
  let bytes = 0;
  const drop = (): void => {
    line.leave(arrival);
    socket.destroy();
  };
  const leave = (): void => line.leave(arrival);
  // Read while waiting, because otherwise a disconnect would not be noticed.
  const receive = (): void => {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) return;
    received.push(chunk);
    bytes += chunk.length;
    if (bytes > HELLO_BYTES_MAX) return drop();
    if (received.length > 1) return;
    socket.setTimeout(0);
    line.join(arrival);
  };
  const arrival: Arrival = {
    address: socket.remoteAddress ?? "",
    begin: () => {
      if (socket.destroyed) return false;
      socket.off("readable", receive).off("end", drop).off("timeout", drop).off("close", leave).off("error", ignore);
      socket.unshift(Buffer.concat(received));
      shakeHands(socket);
      return true;
    },
    sendAway: drop,
  };
  socket.on("readable", receive).on("end", drop).on("timeout", drop).on("close", leave).on("error", ignore);
  socket.setTimeout(silent_ms);
}

/** A close event follows. */
const ignore = (): void => {};
