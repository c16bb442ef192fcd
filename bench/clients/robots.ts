/**
 * Simulated robots that only listen, thousands per process, for the fan-out benchmark. They count bytes without parsing them, so that our
 * server and the limit have the same reader.
 */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import net from "node:net";
import { CONTROL_CHANNEL, encodeFrame, FrameType, LINK_SUBPROTOCOL } from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { type BenchRobot, concurrently, hello } from "../robots.ts";

/** Orders from the benchmark: open links, or report when all links to that port have received this many bytes in total. */
export type Order = { do: "open"; port: number; count: number; speak: boolean } | { do: "await"; port: number; bytes: number };

const AT_A_TIME = 20;
const NONCE = /"nonce":"([^"]+)"/;
const { privateKey: private_key } = generateKeyPairSync("ed25519");
const received = new Map<number, { bytes: number; wanted: number }>();

/** Resolves when the link is open: after the WebSocket upgrade or, if the link has a handshake, after the welcome message. */
function open(port: number, speak: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const robot: BenchRobot = { id: `rob_${randomBytes(13).toString("hex")}`, private_key };
    const count = received.get(port) as { bytes: number; wanted: number };
    let text = "";
    const socket = net.connect({ port, host: "127.0.0.1" });
    const greet = (bytes: Buffer): void => {
      text += bytes.toString("latin1");
      const nonce = NONCE.exec(text)?.[1];
      if (speak && nonce !== undefined && !text.includes('"welcome"')) {
        if (!text.endsWith("said hello")) socket.write(masked(hello(robot, { nonce, host: "bench", channel: "" })));
        text = "said hello";
      } else if (text.includes(speak ? '"type":"welcome"' : "\r\n\r\n")) {
        socket.off("data", greet).on("data", ({ length }) => arrived(port, count, length));
        resolve();
      }
    };
    socket.on("data", greet).on("error", reject);
    socket.on("close", () => reject(new Error("the link was closed")));
    socket.write(
      `GET ${LINK_PATH} HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}\r\nSec-WebSocket-Protocol: ${LINK_SUBPROTOCOL}\r\n\r\n`,
    );
  });
}

/** A client's frame must be masked; a mask of zeros leaves it unchanged. */
function masked(message: unknown): Buffer {
  const headroom = 8;
  const bytes = encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.from(JSON.stringify(message)), 0, headroom);
  bytes.fill(0, 0, headroom);
  bytes[0] = 0x82;
  bytes[1] = 0x80 | 126;
  bytes.writeUInt16BE(bytes.length - headroom, 2);
  return bytes;
}

function arrived(port: number, count: { bytes: number; wanted: number }, length: number): void {
  count.bytes += length;
  if (count.bytes < count.wanted) return;
  count.wanted = Infinity;
  process.send?.({ port });
}

process.on("message", (order: Order) => {
  const count = received.get(order.port) ?? { bytes: 0, wanted: Infinity };
  received.set(order.port, count);
  if (order.do === "open") {
    void concurrently(Array.from({ length: order.count }), AT_A_TIME, () => open(order.port, order.speak)).then(
      () => process.send?.({ port: order.port }),
      (error: Error) => {
        process.stderr.write(`${error.stack}\n`);
        process.exit(1);
      },
    );
  } else {
    count.wanted = order.bytes;
    count.bytes = 0;
    process.send?.({ port: order.port });
  }
});
process.on("disconnect", () => process.exit(0));
