import { createServer, connect as connectTcp, type AddressInfo, type Server, type Socket } from "node:net";
import { connect as connectTls, TLSSocket } from "node:tls";
import { once } from "node:events";

export interface RelayOptions {
  /** The address to which robots connect. */
  host: string;
  /** The real server. */
  to: { host: string; port: number };
  /** A certificate that robots trust. Absent: the relay does not use TLS. */
  pair?: { cert: string; key: string };
  /** The certificate authority of the real server. */
  ca?: string;
}

/**
 * A hostile server that forwards robots' bytes to the real server. It can forward TLS unchanged, like a network, terminate TLS with its own
 * certificate, and change the Host header.
 */
export class Relay implements AsyncDisposable {
  readonly #options: RelayOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Whether the relay forwards TLS unchanged. */
  is_network = false;
  /** Replacement of the Host header; undefined: unchanged. */
  host_header: string | undefined;
  /** Decrypted data of robots, by connection. */
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

  /** Ends all connections, so that robots reconnect. */
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

/** Replaces the Host header in bytes that contain one. Robots send the head of a request in one chunk. */
export function withHost(bytes: Buffer, host: string): Buffer {
  return Buffer.from(bytes.toString("latin1").replace(/^host: .*$/im, `Host: ${host}`), "latin1");
}
