import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import { CLOSE } from "@roamfleet/protocol";
import { minor_gc } from "../../../kernel/minor-gc.ts";

const HEADER_BYTES_MAX = 14;
const MASKED = 0x80;
const LENGTH_OF_16_BITS = 126;
const LENGTH_OF_64_BITS = 127;
const CLOSE_OPCODE = 8;

/** Parses the frame headers in one direction of a WebSocket connection, to find where one frame ends and another can be inserted. */
export class FrameWalk {
  readonly #header = Buffer.alloc(HEADER_BYTES_MAX);
  /** Number of bytes of the present frame header that were received. */
  #held = 0;
  /** Number of bytes of the present frame's payload that were not received yet. */
  #left = 0;
  #close_seen = false;

  /** Whether the bytes parsed so far end between two frames. */
  get at_boundary(): boolean {
    return this.#held === 0 && this.#left === 0;
  }

  /** Whether a close frame has started. Nothing may be sent after it. */
  get close_seen(): boolean {
    return this.#close_seen;
  }

  /**
   * Processes the chunk from index `from` to the end of the present frame, or to the end of the chunk. Returns the index after the
   * processed bytes.
   */
  step(chunk: Uint8Array, from: number): number {
    let at = from;
    if (this.#left === 0) {
      while (this.#held < this.#headerBytes()) {
        if (at === chunk.length) return at;
        this.#header[this.#held++] = chunk[at++]!;
      }
      this.#close_seen ||= (this.#header[0]! & 0x0f) === CLOSE_OPCODE;
      this.#left = this.#payloadBytes();
      this.#held = 0;
    }
    const taken = Math.min(this.#left, chunk.length - at);
    this.#left -= taken;
    return at + taken;
  }

  /** Parses a whole chunk. */
  walk(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) at = this.step(chunk, at);
  }

  /**
   * Returns the length of the present frame header. Until the second byte of the header is known, which determines the length, returns 2.
   */
  #headerBytes(): number {
    if (this.#held < 2) return 2;
    const second = this.#header[1]!;
    const length = second & ~MASKED;
    return 2 + (length === LENGTH_OF_16_BITS ? 2 : length === LENGTH_OF_64_BITS ? 8 : 0) + (second & MASKED ? 4 : 0);
  }

  #payloadBytes(): number {
    const length = this.#header[1]! & ~MASKED;
    if (length === LENGTH_OF_16_BITS) return this.#header.readUInt16BE(2);
    // Above 2^53 the number is not exact. This does not matter, because a frame of that length would never end in practice.
    return length === LENGTH_OF_64_BITS ? this.#header.readUInt32BE(2) * 2 ** 32 + this.#header.readUInt32BE(6) : length;
  }
}

/** Encodes a close frame that a WebSocket server sends. The reason must have at most 123 bytes. */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason);
  const frame = Buffer.alloc(4 + text.length);
  frame.set([0x80 | CLOSE_OPCODE, 2 + text.length]);
  frame.writeUInt16BE(code, 2);
  frame.set(text, 4);
  return frame;
}

/** Time limit for closing both sockets. If they are not closed by then, they are disconnected. */
const END_TIMEOUT_MS = 2_000;
/**
 * A viewer that has not read pending data for this long is disconnected. A viewer that is not relayed is disconnected after the same time
 * if it answers no ping.
 */
const STUCK_MS = 60_000;

interface SocketsToJoin {
  /** The viewer's socket after the 101 response. */
  viewer: Duplex;
  /** The socket to the serving node. */
  node: Socket;
  /** Bytes that were received after the node's HTTP response. */
  head: Buffer;
}

/** Connects a viewer's socket with the socket to the node that serves the stream. Forwards bytes in both directions, with backpressure. */
export class JoinedSockets {
  /** Resolves when both sockets are closed. */
  readonly ended: Promise<void>;
  readonly #viewer: Duplex;
  readonly #node: Socket;
  readonly #clock: Clock;
  /** Tracks the frames that are sent to the viewer. */
  readonly #frames = new FrameWalk();
  /** The close code and reason to send to the viewer after the present frame. */
  #ending: { code: number; reason: string } | undefined;
  #close_sent = false;
  #cut: Timer | undefined;
  #blocked_since: number | undefined;

  constructor({ viewer, node, head }: SocketsToJoin, clock: Clock) {
    this.#viewer = viewer;
    this.#node = node;
    this.#clock = clock;
    const closed = [viewer, node].map((one) => new Promise<void>((resolve) => (one.closed ? resolve() : one.once("close", resolve))));
    this.ended = Promise.all(closed).then(() => this.#cut?.cancel());
    node.setTimeout(0);
    if (head.length > 0) this.#forward(head);
    node.on("data", (chunk: Buffer) => this.#forward(chunk));
    viewer.on("drain", () => {
      this.#blocked_since = undefined;
      node.resume();
    });
    node.on("error", () => node.destroy());
    node.once("end", () => this.#nodeLeft());
    node.once("close", () => this.#nodeLeft());
    viewer.on("error", () => viewer.destroy());
    viewer.pipe(node);
    viewer.once("end", () => this.#cutLater());
    viewer.once("close", () => {
      this.#cutLater();
      node.end();
    });
  }

  /** Ends both connections after the present frame. The viewer gets a close frame with this code and reason. */
  end(code: number, reason: string): void {
    if (this.#close_sent || this.#ending !== undefined) return;
    this.#ending = { code, reason };
    this.#cutLater();
    if (this.#frames.at_boundary) this.#sendClose();
  }

  /** Disconnects the viewer if it has not read for too long. Call it regularly. */
  cutStuck(): void {
    if (this.#blocked_since !== undefined && this.#clock.monotonic() - this.#blocked_since > STUCK_MS) this.#viewer.destroy();
  }

  #forward(chunk: Buffer): void {
    if (this.#close_sent) return;
    minor_gc.received(chunk.length);
    if (this.#ending === undefined) this.#frames.walk(chunk);
    const whole = this.#ending === undefined ? chunk : chunk.subarray(0, this.#frames.step(chunk, 0));
    if (!this.#viewer.write(whole)) {
      this.#blocked_since ??= this.#clock.monotonic();
      this.#node.pause();
    }
    if (this.#ending !== undefined && this.#frames.at_boundary) this.#sendClose();
  }

  /**
   * Handles the end of the connection to the node. Sends the viewer a close frame. If a frame to the viewer is incomplete, disconnects the
   * viewer instead.
   */
  #nodeLeft(): void {
    this.#cutLater();
    if (this.#close_sent) return;
    this.#ending ??= { code: CLOSE.draining, reason: "the robot's server is unreachable" };
    if (this.#frames.at_boundary) this.#sendClose();
    else this.#viewer.destroy();
  }

  #sendClose(): void {
    const { code, reason } = this.#ending!;
    this.#close_sent = true;
    this.#viewer.unpipe(this.#node);
    // Discard further messages of the viewer.
    this.#viewer.resume();
    this.#viewer.end(this.#frames.close_seen ? undefined : closeFrame(code, reason));
    this.#node.destroySoon();
  }

  #cutLater(): void {
    this.#cut ??= this.#clock.setTimer(END_TIMEOUT_MS, () => {
      this.#viewer.destroy();
      this.#node.destroy();
    });
  }
}
