import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import { CLOSE } from "@roamfleet/protocol";
import { closeFrame, FrameWalk } from "./frame-walk.ts";

/** A side that does not answer a close within this time is disconnected. */
const END_TIMEOUT_MS = 2_000;
/** A viewer that has read no pending data for this long is disconnected. The same time as for a local viewer that answers no ping. */
const STUCK_MS = 60_000;

export interface SocketsToJoin {
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

  /** Handles the end of the node. After an incomplete frame, the viewer can only be disconnected. */
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
