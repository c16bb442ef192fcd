/** Relays every TCP connection to TARGET_PORT. Returns the port that it listens on. */
import net from "node:net";
import { listener } from "../listener.ts";

const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
  const target = net.connect({ port: Number(process.env.TARGET_PORT), host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  socket.pipe(target).on("error", () => socket.destroy());
  target.pipe(socket).on("error", () => target.destroy());
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
listener((_, response) => response.end(JSON.stringify({ tcp_port: (server.address() as net.AddressInfo).port })));
