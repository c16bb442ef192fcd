/**
 * Viewers of a camera, hundreds per process. They count bytes without parsing them, so that our server and the limit have the same reader.
 */
import { randomBytes } from "node:crypto";
import net from "node:net";

export type ViewersOrder =
  /** `stuck` viewers read the response to their upgrade, and then stop reading. */
  { do: "open"; url: string; count: number; stuck: number } | { do: "bytes" } | { do: "close" };

/**
 * A pong, masked with zeros. Clients send it periodically, because they do not read the server's pings and the server closes silent
 * connections.
 */
const PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);
const PONG_EVERY_MS = 10_000;

let sockets: net.Socket[] = [];
let bytes = 0;

setInterval(() => {
  for (const socket of sockets) if (socket.writable) socket.write(PONG);
}, PONG_EVERY_MS).unref();

function open(url: string, stuck: boolean): Promise<void> {
  const { hostname, port, pathname, search } = new URL(url);
  const socket = net.connect(Number(port), hostname);
  sockets.push(socket);
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    const key = randomBytes(16).toString("base64");
    socket.write(
      `GET ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
    );
    socket.once("data", (answer: Buffer) => {
      if (!answer.toString("latin1").startsWith("HTTP/1.1 101")) return reject(new Error(answer.toString("latin1").slice(0, 200)));
      if (stuck) socket.pause();
      else socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
      resolve();
    });
  });
}

process.on("message", (order: ViewersOrder) => {
  if (order.do === "bytes") return void process.send?.(bytes);
  if (order.do === "close") {
    for (const socket of sockets) socket.destroy();
    sockets = [];
    return void process.send?.("done");
  }
  const opened = Array.from({ length: order.count + order.stuck }, (_, i) => open(order.url, i < order.stuck));
  void Promise.all(opened).then(
    () => process.send?.("done"),
    (error: Error) => {
      process.stderr.write(`${error.message}\n`);
      process.exit(1);
    },
  );
});
