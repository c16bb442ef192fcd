import { CLOSE, type FleetStreamName, type Role, type StreamName } from "@roamfleet/protocol";
import type { Duplex } from "node:stream";
import { ITEM_OVERHEAD_BYTES } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import type { Caller, HashedProof } from "../../kernel/caller.ts";
import { minor_gc } from "../../kernel/minor-gc.ts";
import { type FrameRateLimiter, PauseReason, type RateLimited, ReadValve } from "../../link/index.ts";

const REASON_BYTES_MAX = 123;
/** While more bytes than this are buffered for a viewer, `send` waits. */
const VIEWER_SEND_BYTES = 64 * 1024;
/** While more bytes than this of a viewer's messages are queued, reading from the viewer's socket is paused. */
export const VIEWER_RECEIVE_BYTES = 256 * 1024;
/** Number of bytes of JSON that cost one unit of the rate limit. */
const JSON_UNIT_BYTES = 1024;

/** Handles one message of a viewer. The next message is passed when the returned promise has resolved. */
type TakeMessage = (data: Buffer, binary: boolean) => Promise<unknown> | void;

/** The caller and stream of a viewer. They are checked before the upgrade, and repeatedly while the stream is open. */
export interface Watching {
  kind: { name: StreamName | FleetStreamName; of: "robot" | "fleet"; role: Role };
  caller: Caller;
  /** Hash of the credential. It is used to check repeatedly whether the credential is still valid. */
  held: HashedProof;
  /** The id of the robot, or the id of the fleet if the stream is for a fleet. */
  robot_id: string;
  decommissioned: boolean;
  /** The address from which the request came. */
  ip: string;
}

/**
 * One open stream of one viewer. Pauses reading from the viewer's socket if the viewer exceeds the rate limit of frames, or if too many of
 * its messages are queued. TCP backpressure then slows the viewer.
 */
export class Viewer implements RateLimited {
  readonly admitted: Watching;
  readonly ws: WebSocket;
  readonly socket: Duplex;
  /** The id of the request that opened the stream. */
  readonly request_id: string;
  /** Called once when the stream has ended. */
  onEnd: (() => void) | undefined;
  /** Whether the initial data has been sent. */
  started = false;
  /** The close code with which the server closed the stream. Undefined while the stream is open, or if the viewer ended it. */
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
  /** The resolve functions of calls of `send` that wait for room in the buffer. */
  #room: (() => void)[] = [];

  constructor(admitted: Watching, ws: WebSocket, socket: Duplex, { request_id, pace }: { request_id: string; pace: FrameRateLimiter }) {
    this.admitted = admitted;
    this.valve = new ReadValve(ws);
    this.#pace = pace;
    this.ws = ws;
    this.socket = socket;
    this.request_id = request_id;
    // Errors need no other handling, because a close event follows.
    ws.on("error", ({ code }: NodeJS.ErrnoException) => (this.broke_protocol ||= code?.startsWith("WS_ERR_") === true));
    const answered = (): void => this.#countFrame(1);
    ws.on("pong", answered);
    // A ping of the viewer proves too that it is alive: a slow reader may not have received the server's pings yet, but may send pings.
    ws.on("ping", answered);
    ws.on("message", (data, binary) => {
      minor_gc.received((data as Buffer).length);
      // Text costs more of the rate limit than bytes, because the server parses text but forwards bytes unread.
      this.#countFrame(binary ? 1 : 1 + Math.floor((data as Buffer).length / JSON_UNIT_BYTES));
      // Messages from viewers of logs and cameras are ignored, but they still prove that the viewer is alive.
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

  /** Sends data to the viewer. Resolves when the buffer has room for more, or immediately if the stream has ended. */
  send(data: Uint8Array | string): Promise<void> {
    if (!this.open) return Promise.resolve();
    this.ws.send(data);
    if (this.ws.bufferedAmount <= VIEWER_SEND_BYTES) return Promise.resolve();
    return new Promise((resolve) => this.#room.push(resolve));
  }

  /** Passes all further messages of the viewer to `take`. If `take` throws, the stream ends. */
  receive(take: TakeMessage): void {
    this.#take = take;
  }

  /** Closes the stream after all sent data. Does nothing if the stream is already closing, so the first close code is kept. */
  close(code: number, reason: string): void {
    if (!this.open) return;
    this.ended_with = code;
    this.#ended();
    this.ws.close(code, closeReason(reason));
    // Resume the socket, so that the viewer's close frame is received.
    this.valve.resume(PauseReason.queue);
  }

  /** Sends a ping. If the viewer has not answered the previous ping, disconnects the viewer instead. */
  ping(): void {
    // While the socket is paused, pongs are not read, so a missing pong proves nothing. Send a ping anyway: if the client no longer exists,
    // its machine answers with a reset.
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

/**
 * Truncates a close reason to the maximum size in a close frame. Truncates only between characters, because clients fail on invalid UTF-8.
 */
function closeReason(reason: string): Buffer {
  const bytes = Buffer.from(reason);
  let end = Math.min(bytes.length, REASON_BYTES_MAX);
  while (end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
