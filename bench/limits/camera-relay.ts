/** The limit of showing a camera to many viewers: data received at /source is sent immediately to all connections at other paths. */
import { type WebSocket, WebSocketServer } from "ws";
import { listener } from "../listener.ts";

const viewers = new Set<WebSocket>();
const server = new WebSocketServer({ noServer: true, perMessageDeflate: false });
const http = listener((_, response) => response.end("{}"));
http.on("upgrade", (request, socket, head) =>
  server.handleUpgrade(request, socket, head, (ws) => {
    ws.on("error", () => {});
    if (request.url === "/source") {
      ws.on("message", (frame: Buffer) => {
        for (const viewer of viewers) viewer.send(frame);
      });
    } else {
      viewers.add(ws);
      ws.on("close", () => viewers.delete(ws));
    }
  }),
);
