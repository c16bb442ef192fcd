/** The limits of the robots' link: a WebSocket that is accepted and held (`/ws`), and a TCP socket that is read and nothing more (the next port). */
import { createServer } from "node:http";
import net from "node:net";
import { WebSocketServer } from "ws";

const port = Number(process.env.PORT);
const http = createServer((_, response) => response.end("{}"));
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
http.on("upgrade", (request, socket, head) => sockets.handleUpgrade(request, socket, head, (ws) => ws.on("message", () => {})));
http.listen(port, "127.0.0.1");

let bytes = 0;
net
  .createServer((socket) => socket.on("data", (chunk) => (bytes += chunk.length)).on("error", () => {}))
  .listen(Number(process.env.TCP_PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(bytes < 0 ? 1 : 0));
