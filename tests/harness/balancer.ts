import net from "node:net";

/**
 * A TCP load balancer in front of several servers: each connection goes to the next server that accepts it (round robin). It does not
 * parse HTTP.
 */
export class Balancer implements AsyncDisposable {
  readonly #targets: () => readonly string[];
  readonly #server: net.Server;
  /** Open sockets. The value of a socket to a server is the server's address. */
  readonly #sockets = new Map<net.Socket, string | undefined>();
  #turn = 0;

  private constructor(targets: () => readonly string[]) {
    this.#targets = targets;
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }, (client) => void this.#accept(client));
  }

  /** `targets` returns http(s) addresses and is called for each connection. */
  static async start(targets: () => readonly string[], host = "127.0.0.1"): Promise<Balancer> {
    const balancer = new Balancer(targets);
    await new Promise<void>((resolve, reject) => balancer.#server.once("error", reject).listen(0, host, resolve));
    return balancer;
  }

  /** URL of the balancer, with the scheme of the servers. */
  get url(): string {
    const { protocol } = new URL(this.#targets()[0] ?? "http://no-target");
    const { address, port } = this.#server.address() as net.AddressInfo;
    return `${protocol}//${address}:${port}`;
  }

  /** Resets the connections to one of the servers. */
  cut(target: string): void {
    for (const [socket, its] of this.#sockets) if (its === target) socket.resetAndDestroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets.keys()) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #accept(client: net.Socket): Promise<void> {
    this.#keep(client);
    const targets = this.#targets();
    const first = (this.#turn += 1);
    for (let tried = 0; tried < targets.length; tried += 1) {
      const target = targets[(first + tried) % targets.length]!;
      const server = await connect(target);
      if (server === undefined) continue;
      this.#keep(server, target);
      join(client, server);
      join(server, client);
      client.resume();
      return;
    }
    client.resetAndDestroy();
  }

  #keep(socket: net.Socket, target?: string): void {
    this.#sockets.set(socket, target);
    socket.once("close", () => this.#sockets.delete(socket));
    // Ignore the error here: the other connection of the pair is closed as a result.
    socket.on("error", () => {});
  }
}

/** Forwards bytes from one socket to the other. When one ends, ends the other in the same way: with FIN or a reset. */
function join(from: net.Socket, to: net.Socket): void {
  from.pipe(to);
  from.once("close", (failed) => {
    if (failed || !from.readableEnded) to.resetAndDestroy();
  });
}

/** Connects to a server. Returns undefined if nothing listens there. */
function connect(target: string): Promise<net.Socket | undefined> {
  const { hostname, port } = new URL(target);
  return new Promise((resolve) => {
    const socket = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true });
    socket.once("connect", () => resolve(socket)).once("error", () => resolve(undefined));
  });
}
