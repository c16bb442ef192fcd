import type { Clock } from "@roamfleet/clock";
import { WebSocket } from "ws";
import { errorText } from "../disk/write-atomically.ts";
import { ROS_MESSAGE_BYTES_MAX } from "./adapter.ts";

const HANDSHAKE_MS_MAX = 3_000;
const PING_INTERVAL_MS = 15_000;
/**
 * Idle timeout. A peer that sends no message and no pong for this long hangs, even if the TCP connection
 * is still open.
 */
const SILENCE_MS_MAX = 45_000;

interface RosSocketOptions {
  url: string;
  protocols: string[];
  clock: Clock;
  /** Aborts the connection attempt. To end an open connection, call `close` instead. */
  signal: AbortSignal;
  /** Called with each message. If it throws, the connection ends with the error as its reason. */
  on: (data: Buffer, binary: boolean) => void;
}

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
        failure = "no data received";
        return socket.terminate();
      }
      if (socket.readyState === socket.OPEN) socket.ping();
    });
    socket.on("pong", hear);
    socket.on("ping", hear);
    socket.on("message", (data, binary) => {
      hear();
      // Catch errors here: an invalid message must not end the agent.
      try {
        on(Buffer.isBuffer(data) ? data : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)]), binary);
      } catch (error) {
        failure ??= `the server sent an unreadable message (${errorText(error)})`;
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

  /**
   * Connects to the server. Resolves with undefined if no server answers, or if the server supports none
   * of these protocols.
   */
  static async open(options: RosSocketOptions): Promise<RosSocket | undefined> {
    const { url, protocols, signal } = options;
    if (signal.aborted) return undefined;
    const socket = new WebSocket(url, protocols, {
      handshakeTimeout: HANDSHAKE_MS_MAX,
      maxPayload: ROS_MESSAGE_BYTES_MAX,
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

  /** Sends a value as JSON; does nothing once the connection has ended. */
  send(value: unknown): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(value));
  }

  async close(): Promise<void> {
    this.#socket.terminate();
    await this.gone;
  }
}
