/**
 * Opens thousands of idle WebSockets in one process. Receives the number of WebSockets and the server's address, and reports when all are
 * open.
 */
import { WebSocket } from "ws";
import { concurrently } from "../robots.ts";

export interface RawLinks {
  url: string;
  ca: string | undefined;
  count: number;
}

const AT_A_TIME = 50;

const open = ({ url, ca }: RawLinks): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"), { perMessageDeflate: false, ca });
    socket.once("open", () => resolve(socket)).once("error", reject);
  });

process.on("message", (order: RawLinks) => {
  void concurrently(Array.from({ length: order.count }), AT_A_TIME, () => open(order)).then(
    () => process.send?.("open"),
    (error: Error) => {
      process.stderr.write(`${error.stack}\n`);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit(0));
