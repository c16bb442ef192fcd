/** The limit of a message to every robot: the same bytes, already framed, written to each socket. `GET /send?bytes=N` */
import type { Duplex } from "node:stream";
import { listener } from "../listener.ts";

const sockets = new Set<Duplex>();
const http = listener((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://bench");
  if (pathname === "/send") {
    const payload_bytes = Number(searchParams.get("bytes"));
    const frame = Buffer.alloc(4 + payload_bytes, "x");
    frame[0] = 0x82;
    frame[1] = 126;
    frame.writeUInt16BE(payload_bytes, 2);
    for (const socket of sockets) socket.write(frame);
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
