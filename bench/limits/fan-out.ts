/**
 * The limit of a message to every robot: the same messages, serialized into a frame with the least code and written to each socket.
 * `GET /send?bytes=N`
 */
import type { Duplex } from "node:stream";
import { FRAME_HEADER_BYTES, FrameType } from "@roamfleet/protocol/link";
import { desiredMessages } from "../desired-message.ts";
import { listener } from "../listener.ts";

const sockets = new Set<Duplex>();
const http = listener((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://bench");
  if (pathname === "/send") {
    const messageOf = desiredMessages(Number(searchParams.get("bytes")));
    let robot = 0;
    for (const socket of sockets) socket.write(framed(JSON.stringify(messageOf(robot++))));
  }
  response.end(JSON.stringify({ robots: sockets.size }));
});
http.on("upgrade", (_, socket) => {
  sockets.add(socket);
  socket
    .on("data", () => {})
    .on("close", () => sockets.delete(socket))
    .on("error", () => {});
  socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
});

const HEADER_BYTES = 4 + FRAME_HEADER_BYTES;

/** Encodes text as a frame of the control channel in a WebSocket message, with one copy. */
function framed(text: string): Buffer {
  const length = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  frame.fill(0, 0, HEADER_BYTES);
  frame[0] = 0x82;
  frame[1] = 126;
  frame.writeUInt16BE(FRAME_HEADER_BYTES + length, 2);
  frame[4] = FrameType.DATA;
  frame.write(text, HEADER_BYTES);
  return frame;
}
