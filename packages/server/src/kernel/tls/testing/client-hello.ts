import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { connect } from "node:tls";

/** For tests: returns a ClientHello as Node sends it. */
export async function clientHello(): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1" }).on("error", () => {});
  const [accepted] = (await once(server, "connection")) as [Socket];
  const [hello] = (await once(accepted, "data")) as [Buffer];
  accepted.destroy();
  client.destroy();
  server.close();
  return hello;
}
