/** The far end of a tunnel: sends the requested number of bytes (`send N`), or responds after receiving that many (`take N`). */
import net from "node:net";
import { listener } from "../listener.ts";

const block = Buffer.alloc(64 * 1024, "x");

function send(socket: net.Socket, bytes: number): void {
  for (let left = bytes; left > 0;) {
    const piece = block.subarray(0, Math.min(block.length, left));
    left -= piece.length;
    if (!socket.write(piece)) return void socket.once("drain", () => send(socket, left));
  }
  socket.end();
}

const server = net.createServer({ noDelay: true }, (socket) => {
  socket.on("error", () => {});
  socket.once("data", (first) => {
    const line = first.subarray(0, first.indexOf("\n")).toString("latin1");
    const [what, count] = line.split(" ");
    if (what === "send") return send(socket, Number(count));
    let taken = first.length - line.length - 1;
    const check = (): void => void (taken >= Number(count) && socket.end("all"));
    check();
    socket.on("data", (bytes) => {
      taken += bytes.length;
      check();
    });
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
listener((_, response) => response.end(JSON.stringify({ tcp_port: (server.address() as net.AddressInfo).port })));
