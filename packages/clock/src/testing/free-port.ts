import { randomInt } from "node:crypto";
import { createServer, type ListenOptions, type Server } from "node:net";

/** Range from which ports are taken. The system assigns ports automatically (for port 0 and outgoing connections) only above this range. */
const PORTS = { from: 20_000, to: 32_000 };
const PORTS_TRIED_MAX = 100;

/**
 * Returns a free port for a server that is stopped and restarted. While this process runs, neither the system nor this function in another
 * process assigns the port again.
 */
export async function freePort(host = "127.0.0.1", { from, to } = PORTS): Promise<number> {
  for (let tried = 0; tried < PORTS_TRIED_MAX; tried += 1) {
    const port = randomInt(from, to);
    // Claim the port with an abstract socket. The kernel releases it even if this process is killed.
    const claim = createServer().unref();
    if (!(await listens(claim, { path: `\0roamfleet.test-port.${port}` }))) continue;
    const look = createServer();
    if (await listens(look, { port, host })) {
      await closed(look);
      return port;
    }
    await closed(claim);
  }
  throw new Error(`no port from ${from} to ${to} is free at ${host}`);
}

const listens = (server: Server, at: ListenOptions): Promise<boolean> =>
  new Promise((resolve) => {
    server.once("listening", () => resolve(true)).once("error", () => resolve(false));
    server.listen(at);
  });

const closed = (server: Server): Promise<unknown> => new Promise((resolve) => server.close(resolve));
