import type { Duplex } from "node:stream";
import { STATUS_CODES } from "node:http";
import type { ErrorCode } from "@robofleet/protocol";

/** Answers an upgrade request with an HTTP error in the API's envelope and closes the socket. */
export function refuseUpgrade(
  socket: Duplex,
  status: number,
  code: ErrorCode,
  message: string,
  headers: Record<string, string> = {},
): void {
  const body = JSON.stringify({ error: { code, message } });
  const lines = Object.entries({
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
    ...headers,
  });
  socket.on("error", () => socket.destroy());
  // A client that keeps its end open would keep the socket.
  socket.once("finish", () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`,
  );
}
