import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import type { Admitted } from "./admit.ts";

const REASON_BYTES_MAX = 123;

/** One open stream of one viewer. */
export class Viewer {
  readonly admitted: Admitted;
  readonly ws: WebSocket;
  readonly socket: Duplex;
  /** Called once when the stream is over. */
  onEnd: (() => void) | undefined;
  /** What is sent at the beginning has been sent. */
  started = false;
  /** The code that the server ended it with; undefined while it goes on, or when the viewer ended it. */
  ended_with: number | undefined;
  /** It sent what no WebSocket may, or too much at once. */
  broke_protocol = false;
  #heard = true;
  #closing = false;

  constructor(admitted: Admitted, ws: WebSocket, socket: Duplex) {
    this.admitted = admitted;
    this.ws = ws;
    this.socket = socket;
    // A close event follows.
    ws.on("error", ({ code }: NodeJS.ErrnoException) => (this.broke_protocol ||= code?.startsWith("WS_ERR_") === true));
    ws.on("pong", () => (this.#heard = true));
    // Nothing that a viewer says matters here, but it lives.
    ws.on("message", () => (this.#heard = true));
    ws.once("close", () => {
      this.#closing = true;
      this.onEnd?.();
    });
  }

  get open(): boolean {
    return !this.#closing && this.ws.readyState === this.ws.OPEN;
  }

  /** Ends the stream after what was sent before. */
  close(code: number, reason: string): void {
    if (this.#closing) return;
    this.#closing = true;
    this.ended_with = code;
    this.onEnd?.();
    this.ws.close(code, Buffer.from(reason).subarray(0, REASON_BYTES_MAX));
  }

  /** Asks whether the viewer is still there, or cuts it when it did not answer the last time. */
  ping(): void {
    if (!this.#heard) return this.ws.terminate();
    this.#heard = false;
    if (this.ws.readyState === this.ws.OPEN) this.ws.ping();
  }
}
