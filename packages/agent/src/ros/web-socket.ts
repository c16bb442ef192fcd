import type { Clock } from "@roamfleet/clock";
import { WebSocket } from "ws";
import { errorText } from "../disk/write-atomically.ts";

/** The largest message that is taken, an uncompressed 4K image with room to spare; a larger one ends the connection. */
export const ROS_SOCKET_MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
const HANDSHAKE_MS_MAX = 3_000;
const PING_INTERVAL_MS = 15_000;
/** Neither a message nor a pong for this long: the other end hangs, whatever TCP believes. */
const SILENCE_MS_MAX = 45_000;

export interface RosSocketOptions {
  url: string;
  protocols: string[];
  clock: Clock;
  /** Gives up the attempt; an open connection is ended by `close`. */
  signal: AbortSignal;
  /** Called with each message from the first one on; when it throws, the connection is ended with that as the reason. */
  on: (data: Buffer, binary: boolean) => void;
}

/** A WebSocket to a server on the robot. */
export class RosSocket {
  /** Resolves with the reason when the connection has ended. */
  readonly gone: Promise<string>;
  readonly #socket: WebSocket;

  private constructor(socket: WebSocket, { clock, on }: RosSocketOptions) {
    this.#socket = socket;
    let heard_at_ms = clock.monotonic();
    let failure: string | undefined;
    const hear = (): void => {
      heard_at_ms = clock.monotonic();
    };
    const pulse = clock.every(PING_INTERVAL_MS, () => {
      if (clock.monotonic() - heard_at_ms > SILENCE_MS_MAX) {
        failure = "it is silent";
        return socket.terminate();
      }
      if (socket.readyState === socket.OPEN) socket.ping();
    });
    socket.on("pong", hear);
    socket.on("ping", hear);
    socket.on("message", (data, binary) => {
      hear();
      // What the other end says is anything: nothing of it may end the agent.
      try {
        on(Buffer.isBuffer(data) ? data : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)]), binary);
      } catch (error) {
        failure ??= `it sent what cannot be read (${errorText(error)})`;
        socket.terminate();
      }
    });
    socket.on("error", (error) => (failure ??= error.message));
    this.gone = new Promise((resolve) => {
      socket.once("close", (code) => {
        pulse.cancel();
        resolve(failure ?? `the connection was closed (${code})`);
      });
    });
  }

  /** Resolves when it is open; undefined when nobody answers, or somebody who speaks none of the protocols. */
  static async open(options: RosSocketOptions): Promise<RosSocket | undefined> {
    const { url, protocols, signal } = options;
    if (signal.aborted) return undefined;
    const socket = new WebSocket(url, protocols, {
      handshakeTimeout: HANDSHAKE_MS_MAX,
      maxPayload: ROS_SOCKET_MESSAGE_BYTES_MAX,
      perMessageDeflate: false,
    });
    const abort = (): void => socket.terminate();
    signal.addEventListener("abort", abort, { once: true });
    const opened = new RosSocket(socket, options);
    try {
      const open = await Promise.race([
        new Promise<true>((resolve) => socket.once("open", () => resolve(true))),
        opened.gone.then(() => false as const),
      ]);
      return open ? opened : undefined;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** Says what fits in JSON; nothing once the connection has ended. */
  send(value: unknown): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(value));
  }

  async close(): Promise<void> {
    this.#socket.terminate();
    await this.gone;
  }
}
