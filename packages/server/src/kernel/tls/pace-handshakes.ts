import type { Server } from "node:https";
import type { Socket } from "node:net";
import type { Arrival, HandshakeLine } from "./handshake-line.ts";

/** One record of TLS with its header. A client says hello in less, and waits for the answer before it sends more. */
const HELLO_BYTES_MAX = 16 * 1024 + 5;

/**
 * From now on the server's handshakes begin when the line says so. A client comes into the line with its first byte, which it
 * has `silent_ms` for: those that say nothing take no place. What it sends is kept until its turn.
 */
export function paceHandshakes(server: Server, line: HandshakeLine, silent_ms: number): void {
  // What Node does when a TCP connection comes: it begins the handshake.
  const begin = server.listeners("connection");
  server.removeAllListeners("connection");
  const shakeHands = (socket: Socket): void => {
    for (const listener of begin) listener.call(server, socket);
  };
  server.on("connection", (stream) => {
    line.connected();
    // Anything else would have to be put in by hand.
    const socket = stream as Socket;
    waitForTurn(socket, { line, silent_ms, shakeHands });
  });
  // Each handshake ends in one of these: a timeout and a client that goes are errors, too.
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
  // It is read all the time, since nothing else tells that a client has gone.
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
