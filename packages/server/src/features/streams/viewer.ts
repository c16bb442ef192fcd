import { CLOSE, type FleetStreamName, type Role, type StreamName } from "@roamfleet/protocol";
import type { Duplex } from "node:stream";
import { ITEM_OVERHEAD_BYTES } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import type { Caller, HashedProof } from "../../kernel/caller.ts";
import { type FrameRateLimiter, PauseReason, type RateLimited, ReadValve } from "../../link/index.ts";

const REASON_BYTES_MAX = 123;
/** If more bytes than this are buffered for a viewer, `send` waits. */
const VIEWER_SEND_BYTES = 64 * 1024;
/** If more bytes than this of a viewer's messages are queued, its socket is paused. */
export const VIEWER_RECEIVE_BYTES = 256 * 1024;
/** Bytes of JSON that cost one unit of the rate limit. */
const JSON_UNIT_BYTES = 1024;

/** Handles one message of a viewer. The next message waits for the returned promise. */
type TakeMessage = (data: Buffer, binary: boolean) => Promise<unknown> | void;

/** The caller and its stream, as checked before the upgrade and repeatedly while the stream is open. */
export interface Watching {
  kind: { name: StreamName | FleetStreamName; of: "robot" | "fleet"; role: Role };
  caller: Caller;
  /** Hash of the credential, to check repeatedly whether it is still valid. */
  held: HashedProof;
  /** The id of the robot, or of the fleet for a fleet's stream. */
  robot_id: string;
  decommissioned: boolean;
  /** Address that the request came from. */
  ip: string;
}

/**
 * One open stream of one viewer. If the viewer exceeds the rate limit of frames, or too many of its messages are queued, pauses its
 * socket, so that TCP backpressure slows the viewer.
 */
export class Viewer implements RateLimited {
  readonly admitted: Watching;
  readonly ws: WebSocket;
  readonly socket: Duplex;
  /** Id of the request that opened the stream. */
  readonly request_id: string;
  /** Called once when the stream is over. */
  onEnd: (() => void) | undefined;
  /** Whether the initial data has been sent. */
  started = false;
  /** The close code of the server; undefined while the stream is open, or if the viewer ended it. */
  ended_with: number | undefined;
  /** Whether the viewer violated the WebSocket protocol or a size limit. */
  broke_protocol = false;
  readonly valve: ReadValve;
  frames: RateLimited["frames"];
  readonly #pace: FrameRateLimiter;
  #is_alive = true;
  #closing = false;
  #take: TakeMessage | undefined;
  #taking = false;
  #queued: { data: Buffer; binary: boolean }[] = [];
  #queued_bytes = 0;
  /** Resolvers of the calls of `send` that wait for room. */
  #room: (() => void)[] = [];

  constructor(admitted: Watching, ws: WebSocket, socket: Duplex, { request_id, pace }: { request_id: string; pace: FrameRateLimiter }) {
    this.admitted = admitted;
    this.valve = new ReadValve(ws);
    this.#pace = pace;
    this.ws = ws;
    this.socket = socket;
    this.request_id = request_id;
    // A close event follows.
    ws.on("error", ({ code }: NodeJS.ErrnoException) => (this.broke_protocol ||= code?.startsWith("WS_ERR_") === true));
    const answered = (): void => this.#countFrame(1);
    ws.on("pong", answered);
    // Pings of the viewer count too: a slow reader has not received the server's pings yet, but may send pings itself.
    ws.on("ping", answered);
    ws.on("message", (data, binary) => {
      // Text costs more than bytes, because the server parses text and forwards bytes unread.
      this.#countFrame(binary ? 1 : 1 + Math.floor((data as Buffer).length / JSON_UNIT_BYTES));
      // Messages of viewers of logs and cameras are ignored, but they prove that the viewer is alive.
      if (this.#take !== undefined) this.#enqueue(data as Buffer, binary);
    });
    socket.on("drain", () => this.#wake());
    ws.once("close", () => {
      this.#ended();
      this.#queued = [];
    });
  }

  get org_id(): string {
    return this.admitted.caller.org_id;
  }

  get open(): boolean {
    return !this.#closing && this.ws.readyState === this.ws.OPEN;
  }

  /** Sends data. Resolves when there is room for more, or immediately if the stream has ended. */
  send(data: Uint8Array | string): Promise<void> {
    if (!this.open) return Promise.resolve();
    this.ws.send(data);
    if (this.ws.bufferedAmount <= VIEWER_SEND_BYTES) return Promise.resolve();
    return new Promise((resolve) => this.#room.push(resolve));
  }

  /** Passes all further messages of the viewer to `take`. If it throws, the stream ends. */
  receive(take: TakeMessage): void {
    this.#take = take;
  }

  /** Closes the stream after all sent data. Does nothing if the stream is already closing, so the first close code stays. */
  close(code: number, reason: string): void {
    if (!this.open) return;
    this.ended_with = code;
    this.#ended();
    this.ws.close(code, closeReason(reason));
    // Resume the socket, so that the viewer's close frame is received.
    this.valve.resume(PauseReason.queue);
  }

  /** Sends a ping, or disconnects the viewer if it did not answer the previous one. */
  ping(): void {
    // While the socket is paused, no pong can be read, so a missing pong proves nothing. Still send a ping: if the client no longer
    // exists, its machine answers with a reset.
    if (!this.#is_alive && !this.valve.closed) return this.ws.terminate();
    this.#is_alive = false;
    if (this.ws.readyState === this.ws.OPEN) this.ws.ping();
  }

  #ended(): void {
    if (!this.#closing) {
      this.#closing = true;
      this.onEnd?.();
    }
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#room.splice(0)) resolve();
  }

  #countFrame(units: number): void {
    this.#is_alive = true;
    this.#pace.take(this, units);
  }

  #enqueue(data: Buffer, binary: boolean): void {
    if (this.#closing) return;
    this.#queued.push({ data, binary });
    this.#queued_bytes += data.length + ITEM_OVERHEAD_BYTES;
    if (this.#queued_bytes > VIEWER_RECEIVE_BYTES) this.valve.pause(PauseReason.queue);
    if (!this.#taking) void this.#takeAll();
  }

  async #takeAll(): Promise<void> {
    this.#taking = true;
    try {
      for (let next = this.#queued.shift(); next !== undefined && this.open; next = this.#queued.shift()) {
        const taken = this.#take?.(next.data, next.binary);
        if (taken !== undefined) await taken;
        this.#queued_bytes -= next.data.length + ITEM_OVERHEAD_BYTES;
        if (this.#queued_bytes <= VIEWER_RECEIVE_BYTES / 2) this.valve.resume(PauseReason.queue);
      }
    } catch {
      this.close(CLOSE.bad_message, "the message is not valid for this stream");
    } finally {
      this.#taking = false;
    }
  }
}

/** Truncates a reason to the size of a close frame, at a character boundary: clients fail on invalid UTF-8. */
function closeReason(reason: string): Buffer {
  const bytes = Buffer.from(reason);
  let end = Math.min(bytes.length, REASON_BYTES_MAX);
  while (end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
