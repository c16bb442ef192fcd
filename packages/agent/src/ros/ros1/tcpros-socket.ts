import { EventEmitter } from "node:events";
import { createConnection, type Socket } from "node:net";
import { TcpConnection, type TcpAddress, type TcpSocket } from "@foxglove/ros1";
import type { Clock } from "@roamfleet/clock";
import { ROS1_MESSAGE_BYTES_MAX } from "./message-limit.ts";

/** The header contains the definition of the message's type. */
const HEADER_BYTES_MAX = 1024 * 1024;
const CONNECT_MS_MAX = 5_000;
const LENGTH_BYTES = 4;

/** Receives what a publisher sends on a connection. */
export interface TcpRosReader {
  /** Called once per connection with the fields of the header: `type`, `message_definition`, … */
  header(topic: string, header: ReadonlyMap<string, string>): void;
  message(topic: string, bytes: Uint8Array): void;
  /** Replaces a message over ROS1_MESSAGE_BYTES_MAX. */
  oversized(topic: string, bytes: number): void;
}

/**
 * A connection to a publisher. RosNode opens and closes it, but reads nothing from it: its reader decodes every message, takes up to 1 GB for one,
 * and after a reconnect takes the publisher's header for a message.
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

  /** Rejects if it cannot connect; `close` is emitted then as well, and RosNode retries later. */
  connect(): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(this.#to);
      this.#socket = socket;
      const timer = this.#clock.setTimer(CONNECT_MS_MAX, () => socket.destroy(new Error(`no connection within ${CONNECT_MS_MAX} ms`)));
      const frames = new Frames({
        header: (bytes) => this.#reader.header(this.#topic, TcpConnection.ParseHeader(bytes)),
        message: (bytes) => this.#reader.message(this.#topic, bytes),
        oversized: (bytes) => this.#reader.oversized(this.#topic, bytes),
      });
      socket.once("connect", () => {
        timer.cancel();
        socket.setKeepAlive(true, 60_000);
        resolve();
        this.emit("connect");
      });
      socket.on("data", (chunk) => {
        try {
          frames.add(chunk);
        } catch (error) {
          socket.destroy(error instanceof Error ? error : new Error(String(error)));
        }
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

  /** RosNode writes only the header of the subscription. */
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

interface FrameTaker {
  header(bytes: Uint8Array): void;
  message(bytes: Uint8Array): void;
  oversized(bytes: number): void;
}

/** Splits a stream of length-prefixed frames (uint32, little endian): the header first, then messages. */
class Frames {
  readonly #take: FrameTaker;
  #parts: Uint8Array[] = [];
  #held = 0;
  /** Bytes of the next frame, or of its length field while that is unknown. */
  #wanted = LENGTH_BYTES;
  #in_body = false;
  #has_header = false;
  #skip = 0;

  constructor(take: FrameTaker) {
    this.#take = take;
  }

  /** Throws if the stream is not TCPROS. */
  add(chunk: Uint8Array): void {
    for (let rest = chunk; rest.length > 0 || (this.#in_body && this.#wanted === 0);) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, rest.length);
        this.#skip -= skipped;
        rest = rest.subarray(skipped);
        continue;
      }
      const part = rest.subarray(0, this.#wanted - this.#held);
      rest = rest.subarray(part.length);
      this.#parts.push(part);
      this.#held += part.length;
      if (this.#held < this.#wanted) return;
      const bytes = Buffer.concat(this.#parts, this.#held);
      this.#parts = [];
      this.#held = 0;
      if (this.#in_body) this.#complete(bytes);
      else this.#expect(bytes.readUInt32LE(0));
    }
  }

  #expect(length: number): void {
    if (!this.#has_header && length > HEADER_BYTES_MAX) throw new Error("the publisher's header is too long");
    if (length > ROS1_MESSAGE_BYTES_MAX) {
      this.#skip = length;
      this.#take.oversized(length);
      return;
    }
    this.#in_body = true;
    this.#wanted = length;
  }

  #complete(bytes: Uint8Array): void {
    this.#in_body = false;
    this.#wanted = LENGTH_BYTES;
    if (this.#has_header) return this.#take.message(bytes);
    this.#has_header = true;
    this.#take.header(bytes);
  }
}
