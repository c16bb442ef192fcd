import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import { CLOSE } from "@roamfleet/protocol";

const HEADER_BYTES_MAX = 14;
const MASKED = 0x80;
const LENGTH_OF_16_BITS = 126;
const LENGTH_OF_64_BITS = 127;
const CLOSE_OPCODE = 8;

/** Parses the frame headers in one direction of a WebSocket, to find the boundaries where a frame can be inserted. */
export class FrameWalk {
  readonly #header = Buffer.alloc(HEADER_BYTES_MAX);
  /** Bytes of the present header received so far. */
  #held = 0;
  /** Remaining bytes of the present payload. */
  #left = 0;
  #close_seen = false;

  /** Whether the position is between two frames. */
  get at_boundary(): boolean {
    return this.#held === 0 && this.#left === 0;
  }

  /** Whether a close frame has started, after which nothing may be sent. */
  get close_seen(): boolean {
    return this.#close_seen;
  }

  /** Advances to the end of the present frame or of the chunk, and returns the new position. */
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

  /** Processes a whole chunk. */
  walk(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) at = this.step(chunk, at);
  }

  /** Returns the length of the present header, as far as known. The second byte of the header determines it. */
  #headerBytes(): number {
    if (this.#held < 2) return 2;
    const second = this.#header[1]!;
    const length = second & ~MASKED;
    return 2 + (length === LENGTH_OF_16_BITS ? 2 : length === LENGTH_OF_64_BITS ? 8 : 0) + (second & MASKED ? 4 : 0);
  }

  #payloadBytes(): number {
    const length = this.#header[1]! & ~MASKED;
    if (length === LENGTH_OF_16_BITS) return this.#header.readUInt16BE(2);
    // The number is not exact above 2^53. This does not matter, because a frame of that length never ends in practice.
    return length === LENGTH_OF_64_BITS ? this.#header.readUInt32BE(2) * 2 ** 32 + this.#header.readUInt32BE(6) : length;
  }
}

/** Encodes a server's close frame. The reason has at most 123 bytes. */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason);
  const frame = Buffer.alloc(4 + text.length);
  frame.set([0x80 | CLOSE_OPCODE, 2 + text.length]);
  frame.writeUInt16BE(code, 2);
  frame.set(text, 4);
  return frame;
}

/** Both sides are disconnected if they are not closed this long after the end began. */
const END_TIMEOUT_MS = 2_000;
/** A viewer that has not read pending data for this long is disconnected. A local viewer that answers no ping has the same time. */
const STUCK_MS = 60_000;

interface SocketsToJoin {
  /** The viewer's socket after the 101 response. */
  viewer: Duplex;
  /** The socket to the serving node. */
  node: Socket;
  /** Bytes that followed the node's response. */
  head: Buffer;
}

/** Joins a viewer's socket to that of the serving node: forwards bytes in both directions, with backpressure. */
export class JoinedSockets {
  /** Resolves when both are closed. */
  readonly ended: Promise<void>;
  readonly #viewer: Duplex;
  readonly #node: Socket;
  readonly #clock: Clock;
  /** Frames sent to the viewer. */
  readonly #frames = new FrameWalk();
  /** The close to send to the viewer when the present frame is complete. */
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

  /** Ends both sides after the present frame: closes the viewer with this code, and ends the connection to the node. */
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
    if (this.#ending === undefined) this.#frames.walk(chunk);
    const whole = this.#ending === undefined ? chunk : chunk.subarray(0, this.#frames.step(chunk, 0));
    if (!this.#viewer.write(whole)) {
      this.#blocked_since ??= this.#clock.monotonic();
      this.#node.pause();
    }
    if (this.#ending !== undefined && this.#frames.at_boundary) this.#sendClose();
  }

  /** Handles the end of the node's connection: closes the viewer, or disconnects it if an incomplete frame prevents a close frame. */
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
