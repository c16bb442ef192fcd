import { createServer, connect as connectTcp, type AddressInfo, type Server, type Socket } from "node:net";
import { connect as connectTls, TLSSocket } from "node:tls";
import { once } from "node:events";

export interface RelayOptions {
  /** Where robots are made to connect to. */
  host: string;
  /** The true server. */
  to: { host: string; port: number };
  /** A certificate that robots trust; absent: the relay speaks plain. */
  pair?: { cert: string; key: string };
  /** The authority of the true server. */
  ca?: string;
}

/**
 * A hostile server that forwards robots' bytes to the real one. It can forward TLS unopened, as a network does, terminate it with its own
 * certificate, and claim that the request was for another host.
 */
export class Relay implements AsyncDisposable {
  readonly #options: RelayOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Whether it passes TLS on unopened. */
  is_network = false;
  /** What it writes into the header Host; undefined: what the robot wrote. */
  host_header: string | undefined;
  /** What robots sent, decrypted, by connection. */
  readonly heard: Buffer[] = [];

  private constructor(options: RelayOptions) {
    this.#options = options;
    this.#server = createServer((socket) => this.#relay(socket));
  }

  static async start(options: RelayOptions): Promise<Relay> {
    const relay = new Relay(options);
    relay.#server.listen(0, options.host);
    await once(relay.#server, "listening");
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends what robots have open, so that they come back. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #relay(robot: Socket): void {
    const { to, pair, ca } = this.#options;
    const opens = pair !== undefined && !this.is_network;
    const near = opens ? new TLSSocket(robot, { isServer: true, ...pair }) : robot;
    const far = opens ? connectTls({ ...to, ca, servername: "localhost" }) : connectTcp(to);
    const nth = this.heard.push(Buffer.alloc(0)) - 1;
    for (const socket of [robot, near, far]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        for (const other of [robot, near, far]) other.destroy();
      });
    }
    far.pipe(near);
    near.on("data", (bytes: Buffer) => {
      this.heard[nth] = Buffer.concat([this.heard[nth]!, bytes]);
      far.write(this.host_header === undefined ? bytes : withHost(bytes, this.host_header));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.cut();
    await once(this.#server, "close");
  }
}

/** The bytes with another Host header, if they hold one: robots send the head of a request in one piece. */
export function withHost(bytes: Buffer, host: string): Buffer {
  return Buffer.from(bytes.toString("latin1").replace(/^host: .*$/im, `Host: ${host}`), "latin1");
}
