/** The limits of the robots' link: an accepted idle WebSocket, and a TCP socket that replies REPLY_BYTES to each read (TCP_PORT). */
import net from "node:net";
import { WebSocketServer } from "ws";
import { listener } from "../listener.ts";

const http = listener((_, response) => response.end());
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
http.on("upgrade", (request, socket, head) => sockets.handleUpgrade(request, socket, head, (ws) => ws.on("message", () => {})));

const reply = Buffer.alloc(Number(process.env.REPLY_BYTES ?? 0), 1);
net
  .createServer({ noDelay: true }, (socket) => socket.on("data", () => socket.write(reply)).on("error", () => {}))
  .listen(Number(process.env.TCP_PORT ?? 0), "127.0.0.1");
