/** The limits of the robots' link: a WebSocket that is accepted and held, and a TCP socket that is read and nothing more (TCP_PORT). */
import net from "node:net";
import { WebSocketServer } from "ws";
import { listener } from "../listener.ts";

/** Packets that come close together are read at once: what a read costs is told by how many there were. */
let reads = 0;
const http = listener((_, response) => response.end(JSON.stringify({ reads })));
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
http.on("upgrade", (request, socket, head) => sockets.handleUpgrade(request, socket, head, (ws) => ws.on("message", () => {})));

net
  .createServer((socket) => socket.on("data", () => (reads += 1)).on("error", () => {}))
  .listen(Number(process.env.TCP_PORT ?? 0), "127.0.0.1");
