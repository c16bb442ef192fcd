/** The limits of the robots' link: an accepted idle WebSocket, and a TCP socket that is only read (TCP_PORT). */
import net from "node:net";
import { WebSocketServer } from "ws";
import { listener } from "../listener.ts";

/** The number of reads is reported, because one read call may return several packets that arrive close to each other. */
let reads = 0;
const http = listener((_, response) => response.end(JSON.stringify({ reads })));
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
http.on("upgrade", (request, socket, head) => sockets.handleUpgrade(request, socket, head, (ws) => ws.on("message", () => {})));

net
  .createServer((socket) => socket.on("data", () => (reads += 1)).on("error", () => {}))
  .listen(Number(process.env.TCP_PORT ?? 0), "127.0.0.1");
