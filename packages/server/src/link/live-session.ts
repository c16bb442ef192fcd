import {
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FLAG_REPLY,
  type Frame,
  FrameError,
  FrameType,
  LOG_CHANNEL,
  MessageAssembler,
  messageFrames,
} from "@robofleet/protocol/link";
import type { Hello, RobotMessage, ServerMessage } from "@robofleet/protocol/link";
import type { WebSocket } from "ws";
import type { Session } from "./contract.ts";
import { MessageError, parseMessage } from "./inbound.ts";
import { WorkQueue } from "./work-queue.ts";

/** A robot that does not read what it is sent is cut when this much waits for it. */
export const SEND_BYTES_MAX = 8 * 1024 * 1024;

export interface SessionEvents {
  /** A message arrived; resolves when it has been dealt with. */
  message(session: LiveSession, message: Exclude<RobotMessage, { type: "hello" }>): Promise<void>;
  failed(session: LiveSession, error: unknown): void;
}

/** A robot's link after the welcome. One object per robot, without timers or closures of its own: thousands are idle. */
export class LiveSession implements Session {
  readonly session_id: string;
  readonly org_id: string;
  readonly robot_id: string;
  readonly hello: Hello;
  readonly ip: string;
  /** Monotonic milliseconds at which a frame last arrived. */
  heard_at: number;
  /** Heard since it was last asked for by takeSeen. */
  seen = true;
  end_reason: string | undefined;
  readonly #socket: WebSocket;
  readonly #events: SessionEvents;
  #control: MessageAssembler | undefined;
  #logs: MessageAssembler | undefined;
  #work: WorkQueue | undefined;

  constructor(
    socket: WebSocket,
    identity: { session_id: string; org_id: string; hello: Hello; ip: string; now: number },
    events: SessionEvents,
  ) {
    this.#socket = socket;
    this.session_id = identity.session_id;
    this.org_id = identity.org_id;
    this.robot_id = identity.hello.robot_id;
    this.hello = identity.hello;
    this.ip = identity.ip;
    this.heard_at = identity.now;
    this.#events = events;
  }

  send(message: ServerMessage): boolean {
    if (this.#socket.readyState !== this.#socket.OPEN) return false;
    if (this.#socket.bufferedAmount > SEND_BYTES_MAX) {
      this.terminate("the robot does not read");
      return false;
    }
    for (const frame of messageFrames(CONTROL_CHANNEL, Buffer.from(JSON.stringify(message)))) this.#socket.send(frame);
    return true;
  }

  close(code: number, reason: string): void {
    this.end_reason ??= reason;
    this.#socket.close(code, reason);
  }

  /** Ends the link without waiting for the other end. */
  terminate(reason: string): void {
    this.end_reason ??= reason;
    this.#socket.terminate();
  }

  goAway(retry_after_ms: number, reason: string): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#socket.send(encodeFrame(FrameType.GOAWAY, CONTROL_CHANNEL, Buffer.from(JSON.stringify({ retry_after_ms, reason }))));
    this.close(1012, reason);
  }

  /** Takes one WebSocket message. A frame that breaks the protocol ends the link. */
  receive(bytes: Buffer, binary: boolean, now: number): void {
    // A link that is being closed has been read to where it broke: what comes after that comes again on the next one.
    if (this.end_reason !== undefined) return;
    this.heard_at = now;
    this.seen = true;
    try {
      if (!binary) throw new FrameError("text frames are not part of the link");
      this.#frame(decodeFrame(bytes));
    } catch (error) {
      if (!(error instanceof FrameError) && !(error instanceof MessageError)) throw error;
      this.close(error instanceof FrameError ? 1002 : 1008, error.message.slice(0, 120));
    }
  }

  #frame(frame: Frame): void {
    if (frame.type === FrameType.PING) {
      if ((frame.flags & FLAG_REPLY) === 0) this.#socket.send(encodeFrame(FrameType.PING, frame.channel, frame.payload, FLAG_REPLY));
      return;
    }
    if (frame.type !== FrameType.DATA) throw new FrameError(`frame type ${frame.type} is not expected here`);
    const message = this.#assembler(frame.channel).push(frame);
    if (message === undefined) return;
    const parsed = parseMessage(message);
    if (parsed.type === "hello") throw new MessageError("hello came twice");
    this.#work ??= new WorkQueue(this.#socket);
    this.#work.add(
      () => this.#events.message(this, parsed),
      (error) => this.#events.failed(this, error),
    );
  }

  #assembler(channel: number): MessageAssembler {
    if (channel === CONTROL_CHANNEL) return (this.#control ??= new MessageAssembler());
    if (channel === LOG_CHANNEL) return (this.#logs ??= new MessageAssembler());
    throw new FrameError(`channel ${channel} is not open`);
  }
}
