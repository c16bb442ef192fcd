import { CLOSE, type FleetStreamName, type Role, type StreamName } from "@roamfleet/protocol";
import type { Duplex } from "node:stream";
import { ITEM_OVERHEAD_BYTES } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import type { Caller } from "../../kernel/caller.ts";
import type { HeldProof } from "../../kernel/proof.ts";
import { type FramePace, Hold, type Paced, ReadValve } from "../../link/index.ts";

const REASON_BYTES_MAX = 123;
/** What may wait for a viewer before `send` holds its caller up. */
export const VIEWER_SEND_BYTES = 64 * 1024;
/** What a viewer said and nobody has taken yet; beyond, its socket is not read, and so it is cut when that goes on. */
export const VIEWER_RECEIVE_BYTES = 256 * 1024;
/** JSON costs one unit of the pace for each. */
const JSON_UNIT_BYTES = 1024;

/** Takes what a viewer says, one message at a time: the next one waits for the promise. */
export type TakeMessage = (data: Buffer, binary: boolean) => Promise<unknown> | void;

/** Who watches what, as checked before the upgrade; enough to check it again while the stream is open. */
export interface Watching {
  kind: { name: StreamName | FleetStreamName; of: "robot" | "fleet"; role: Role };
  caller: Caller;
  /** What it was opened with, to ask again whether it still holds. */
  held: HeldProof;
  /** The fleet's id, of a stream of a fleet. */
  robot_id: string;
  decommissioned: boolean;
  /** Address that the request came from. */
  ip: string;
}

/**
 * One open stream of one viewer. A viewer that sends more frames than its pace allows is not read for a while, as is one
 * whose messages nobody has taken: TCP then slows it.
 */
export class Viewer implements Paced {
  readonly admitted: Watching;
  readonly ws: WebSocket;
  readonly socket: Duplex;
  /** Of the request that opened it. */
  readonly request_id: string;
  /** Called once when the stream is over. */
  onEnd: (() => void) | undefined;
  /** What is sent at the beginning has been sent. */
  started = false;
  /** The code that the server ended it with; undefined while it goes on, or when the viewer ended it. */
  ended_with: number | undefined;
  /** It sent what no WebSocket may, or too much at once. */
  broke_protocol = false;
  readonly valve: ReadValve;
  units: Paced["units"];
  readonly #pace: FramePace;
  #heard = true;
  #closing = false;
  #take: TakeMessage | undefined;
  #taking = false;
  #said: { data: Buffer; binary: boolean }[] = [];
  #said_bytes = 0;
  /** Whoever waits in `send` for room. */
  #room: (() => void)[] = [];

  constructor(admitted: Watching, ws: WebSocket, socket: Duplex, { request_id, pace }: { request_id: string; pace: FramePace }) {
    this.admitted = admitted;
    this.valve = new ReadValve(ws);
    this.#pace = pace;
    this.ws = ws;
    this.socket = socket;
    this.request_id = request_id;
    // A close event follows.
    ws.on("error", ({ code }: NodeJS.ErrnoException) => (this.broke_protocol ||= code?.startsWith("WS_ERR_") === true));
    const heard = (): void => this.#hearFrame(1);
    ws.on("pong", heard);
    // One that reads slowly sees no ping of ours, and asks by itself.
    ws.on("ping", heard);
    ws.on("message", (data, binary) => {
      // Bytes are passed on unread, text is parsed.
      this.#hearFrame(binary ? 1 : 1 + Math.floor((data as Buffer).length / JSON_UNIT_BYTES));
      // Nothing that the viewer of a log or a camera says matters, but it lives.
      if (this.#take !== undefined) this.#hear(data as Buffer, binary);
    });
    socket.on("drain", () => this.#wake());
    ws.once("close", () => {
      this.#ended();
      this.#said = [];
    });
  }

  get org_id(): string {
    return this.admitted.caller.org_id;
  }

  get open(): boolean {
    return !this.#closing && this.ws.readyState === this.ws.OPEN;
  }

  /** Resolves when there is room for the next, or at once when the stream is over. */
  send(data: Uint8Array | string): Promise<void> {
    if (!this.open) return Promise.resolve();
    this.ws.send(data);
    if (this.ws.bufferedAmount <= VIEWER_SEND_BYTES) return Promise.resolve();
    return new Promise((resolve) => this.#room.push(resolve));
  }

  /** Has everything that the viewer says from now on taken. A taker that throws ends the stream. */
  receive(take: TakeMessage): void {
    this.#take = take;
  }

  /** Ends the stream after what was sent before; one that the viewer has just ended by itself ends as the viewer said. */
  close(code: number, reason: string): void {
    if (!this.open) return;
    this.ended_with = code;
    this.#ended();
    this.ws.close(code, closeReason(reason));
    // Its own close has to be heard.
    this.valve.release(Hold.queue);
  }

  /** Asks whether the viewer is still there, or cuts it when it did not answer the last time. */
  ping(): void {
    // What it says is not read while the robot has no room for it, so neither is its answer. Asked it is all the same: a machine that has
    // nobody there any more answers with a reset.
    if (!this.#heard && !this.valve.closed) return this.ws.terminate();
    this.#heard = false;
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

  #hearFrame(units: number): void {
    this.#heard = true;
    this.#pace.take(this, units);
  }

  #hear(data: Buffer, binary: boolean): void {
    if (this.#closing) return;
    this.#said.push({ data, binary });
    this.#said_bytes += data.length + ITEM_OVERHEAD_BYTES;
    if (this.#said_bytes > VIEWER_RECEIVE_BYTES) this.valve.hold(Hold.queue);
    if (!this.#taking) void this.#takeAll();
  }

  async #takeAll(): Promise<void> {
    this.#taking = true;
    try {
      for (let next = this.#said.shift(); next !== undefined && this.open; next = this.#said.shift()) {
        const taken = this.#take?.(next.data, next.binary);
        if (taken !== undefined) await taken;
        this.#said_bytes -= next.data.length + ITEM_OVERHEAD_BYTES;
        if (this.#said_bytes <= VIEWER_RECEIVE_BYTES / 2) this.valve.release(Hold.queue);
      }
    } catch {
      this.close(CLOSE.bad_message, "the message means nothing here");
    } finally {
      this.#taking = false;
    }
  }
}

/** As much as a close frame holds, cut between two characters: a client ends with an error of its own for half a one. */
function closeReason(reason: string): Buffer {
  const bytes = Buffer.from(reason);
  let end = Math.min(bytes.length, REASON_BYTES_MAX);
  while (end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
