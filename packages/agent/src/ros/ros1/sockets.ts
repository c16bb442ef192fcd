import { EventEmitter } from "node:events";
import { createConnection, type Socket } from "node:net";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type TcpAddress, TcpConnection, type TcpSocket } from "@foxglove/ros1";
import type { Clock } from "@roamfleet/clock";
import type { HttpHandler, HttpServer } from "@foxglove/xmlrpc";
import { ByteReader, readAll } from "../../runtime/byte-reader.ts";
import { ROS_MESSAGE_BYTES_MAX } from "../adapter.ts";

/** Maximum bytes of a header, which contains the definition of the message's type. */
const HEADER_BYTES_MAX = 1024 * 1024;
const CONNECT_MS_MAX = 5_000;
const LENGTH_BYTES = 4;

/** Receives the header and the messages that a publisher sends on a connection. */
export interface TcpRosReader {
  /** Called once per connection with the header's fields: `type`, `message_definition`, … */
  header(topic: string, header: ReadonlyMap<string, string>): void;
  message(topic: string, bytes: Uint8Array): void;
  oversized(topic: string, bytes: number): void;
}

/**
 * A connection to a publisher. RosNode opens and closes it, but does not read it, because its own reader has three defects. It decodes
 * every message, allocates up to 1 GB for one, and after a reconnect mistakes the publisher's header for a message.
 */
export class TcpRosSocket extends EventEmitter implements TcpSocket {
  readonly #to: { host: string; port: number };
  readonly #clock: Clock;
  readonly #reader: TcpRosReader;
  #socket: Socket | undefined;
  #topic = "";

  constructor(to: { host: string; port: number }, clock: Clock, reader: TcpRosReader) {
    super();
    this.#to = to;
    this.#clock = clock;
    this.#reader = reader;
  }

  /** Connects to the publisher. If that fails, rejects and emits `close`; RosNode retries later. */
  connect(): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(this.#to);
      this.#socket = socket;
      const timer = this.#clock.setTimer(CONNECT_MS_MAX, () => socket.destroy(new Error(`no connection within ${CONNECT_MS_MAX} ms`)));
      socket.once("connect", () => {
        timer.cancel();
        socket.setKeepAlive(true, 60_000);
        resolve();
        this.emit("connect");
        this.#receive(socket).catch((error: unknown) => socket.destroy(error instanceof Error ? error : new Error(String(error))));
      });
      socket.once("error", (error) => {
        reject(error);
        this.emit("error", error);
      });
      socket.once("close", () => {
        timer.cancel();
        reject(new Error("the connection was closed"));
        this.emit("close");
      });
    });
  }

  /** Reads frames with a length prefix (uint32, little endian): first the header, then messages. Throws if the stream is not TCPROS. */
  async #receive(socket: Socket): Promise<void> {
    const reader = new ByteReader(socket);
    for (let is_header = true; ; is_header = false) {
      const length = (await reader.take(LENGTH_BYTES))?.readUInt32LE(0);
      if (length === undefined) return;
      if (is_header && length > HEADER_BYTES_MAX) throw new Error("the publisher's header is too long");
      if (length > ROS_MESSAGE_BYTES_MAX) {
        this.#reader.oversized(this.#topic, length);
        for (let left = length; left > 0;) left -= (await reader.some(left))?.length ?? left;
        continue;
      }
      const bytes = await reader.take(length);
      if (bytes === undefined) return;
      if (is_header) this.#reader.header(this.#topic, TcpConnection.ParseHeader(bytes));
      else this.#reader.message(this.#topic, bytes);
    }
  }

  /** Sends the subscription's header, the only data that RosNode writes, and remembers its topic. */
  async write(data: Uint8Array): Promise<void> {
    this.#topic = TcpConnection.ParseHeader(data.subarray(LENGTH_BYTES)).get("topic") ?? "";
    await new Promise<void>((resolve, reject) => {
      if (this.#socket === undefined) return reject(new Error("there is no connection"));
      this.#socket.write(data, (error) => (error == null ? resolve() : reject(error)));
    });
  }

  close(): Promise<void> {
    this.#socket?.destroy();
    return Promise.resolve();
  }

  connected(): Promise<boolean> {
    return Promise.resolve(this.#socket?.readyState === "open");
  }

  setNoDelay(noDelay?: boolean): Promise<void> {
    this.#socket?.setNoDelay(noDelay);
    return Promise.resolve();
  }

  remoteAddress(): Promise<TcpAddress | undefined> {
    return Promise.resolve({ address: this.#to.host, port: this.#to.port });
  }

  localAddress(): Promise<TcpAddress | undefined> {
    const { localAddress: address, localPort: port } = this.#socket ?? {};
    return Promise.resolve(address === undefined || port === undefined ? undefined : { address, port });
  }

  fd(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}

/** Maximum bytes of a request: the master sends only the publishers of one topic. */
const BODY_BYTES_MAX = 256 * 1024;
const REQUEST_MS_MAX = 5_000;
const CONNECTIONS_MAX = 16;

/**
 * HTTP server through which the master notifies this node of a topic's publishers. It listens on one address only, and has limits that the
 * library's server lacks.
 */
export class FollowerServer implements HttpServer {
  handler: HttpHandler = () => Promise.resolve({ statusCode: 404 });
  readonly #address: string;
  readonly #server: Server;

  constructor(address: string) {
    this.#address = address;
    this.#server = createServer({ requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX }, (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  url(): string | undefined {
    const port = this.port();
    return port === undefined ? undefined : `http://${this.#address.includes(":") ? `[${this.#address}]` : this.#address}:${port}/`;
  }

  port(): number | undefined {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : undefined;
  }

  listen(port?: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.on("error", reject);
      this.#server.listen(port ?? 0, this.#address, resolve);
    });
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const tooLong = new Error("the request is too long");
    const received = await readAll(request.iterator({ destroyOnReturn: false }), BODY_BYTES_MAX, () => tooLong).catch((error: unknown) => {
      if (error !== tooLong) throw error;
      return undefined;
    });
    if (received === undefined) return void response.writeHead(413, { connection: "close" }).end();
    const { statusCode, headers, body } = await this.handler({ body: received.toString("utf8") });
    response.writeHead(statusCode, headers).end(body);
  }
}
