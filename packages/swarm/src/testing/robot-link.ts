import {
  channelBinding,
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FLAG_REPLY,
  FRAME_HEADER_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  FrameType,
  LINK_SUBPROTOCOL,
  LOG_CHANNEL,
  MessageAssembler,
  messageFrames,
  type RobotMessage,
  type ServerMessage,
  type Welcome,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import type { Swarm } from "./swarm.ts";

export interface LinkEvents {
  hello(nonce: string, channel: string): RobotMessage;
  message(message: ServerMessage): void;
  /** The link is closed, for whatever reason. */
  closed(code: number, reason: string): void;
}

/** Thrown if the server refused this robot. */
export class LinkRefused extends Error {}

/** One WebSocket of one simulated robot: frames in and out. */
export class RobotLink {
  readonly #swarm: Swarm;
  readonly #events: LinkEvents;
  readonly #socket: WebSocket;
  readonly #assembler = new MessageAssembler();
  readonly #barriers: (() => void)[] = [];
  readonly #welcomed = Promise.withResolvers<Welcome>();
  readonly #closed = Promise.withResolvers<void>();
  #is_welcomed = false;
  #is_closed = false;
  #channel = "";

  constructor(swarm: Swarm, events: LinkEvents) {
    this.#swarm = swarm;
    this.#events = events;
    const end = swarm.activity.begin();
    this.#welcomed.promise.then(end, end);
    this.#socket = new WebSocket(swarm.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, {
      ...swarm.tls,
      perMessageDeflate: false,
      maxPayload: FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX,
    });
    this.#socket.on("message", (data) => this.#receive(data as Buffer));
    this.#socket.on("upgrade", (response) => (this.#channel = channelBinding(response.socket)));
    this.#socket.on("error", (error) => this.#welcomed.reject(error)); // A `close` event follows.
    this.#socket.on("close", (code, reason) => this.#onClose(code, reason.toString("utf8")));
  }

  /** Resolves with the welcome message; rejects if the server refuses or is unreachable. */
  get welcomed(): Promise<Welcome> {
    return this.#welcomed.promise;
  }

  get up(): boolean {
    return this.#is_welcomed && this.#socket.readyState === WebSocket.OPEN;
  }

  send(message: RobotMessage): void {
    this.#swarm.messages += 1;
    const channel = message.type === "logs" ? LOG_CHANNEL : CONTROL_CHANNEL;
    for (const frame of messageFrames(channel, Buffer.from(JSON.stringify(message)))) this.#socket.send(frame);
  }

  /** Sends a heartbeat. */
  ping(): void {
    if (this.up) this.#socket.send(encodeFrame(FrameType.PING, CONTROL_CHANNEL, Buffer.alloc(0)));
  }

  /**
   * Resolves when all earlier frames of both ends have arrived. Frames are ordered in both directions, so it waits for the reply to a ping.
   */
  barrier(): Promise<void> {
    if (!this.up) return Promise.resolve();
    return new Promise((resolve) => {
      this.#barriers.push(resolve);
      this.#socket.send(encodeFrame(FrameType.PING, CONTROL_CHANNEL, BARRIER));
    });
  }

  /** Closes the link after pending frames and resolves when the socket is closed. */
  close(): Promise<void> {
    if (this.#is_closed) return Promise.resolve();
    const end = this.#swarm.activity.begin();
    this.#socket.close(1000, "simulated");
    return this.#closed.promise.finally(end);
  }

  /** Terminates the socket without a close message, like a power failure. */
  terminate(): Promise<void> {
    if (this.#is_closed) return Promise.resolve();
    this.#socket.terminate();
    return this.#closed.promise;
  }

  #receive(bytes: Buffer): void {
    const frame = decodeFrame(bytes);
    if (frame.type === FrameType.PING) {
      if ((frame.flags & FLAG_REPLY) === 0) this.#socket.send(encodeFrame(FrameType.PING, frame.channel, frame.payload, FLAG_REPLY));
      else if (frame.payload.length > 0) this.#barriers.shift()?.();
      return;
    }
    if (frame.type !== FrameType.DATA || frame.channel !== CONTROL_CHANNEL) return;
    const message = this.#assembler.push(frame);
    if (message === undefined) return;
    this.#swarm.messages += 1;
    this.#take(JSON.parse(Buffer.from(message.buffer, message.byteOffset, message.byteLength).toString("utf8")) as ServerMessage);
  }

  #take(message: ServerMessage): void {
    if (message.type === "challenge") return this.send(this.#events.hello(message.nonce, this.#channel));
    if (message.type === "refused") return this.#welcomed.reject(new LinkRefused(`${message.code}: ${message.message}`));
    if (message.type === "welcome") {
      this.#is_welcomed = true;
      this.#events.message(message);
      return this.#welcomed.resolve(message);
    }
    this.#events.message(message);
  }

  #onClose(code: number, reason: string): void {
    this.#is_closed = true;
    this.#welcomed.reject(new LinkRefused(`the link was closed with ${code} ${reason}`));
    for (const resolve of this.#barriers.splice(0)) resolve();
    this.#events.closed(code, reason);
    this.#closed.resolve();
  }
}

const BARRIER = Buffer.from("barrier");
