import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import { CLOSE } from "@roamfleet/protocol";
import { closeFrame, FrameWalk } from "./frame-walk.ts";

/** Whoever does not answer an end in this time is cut. */
const END_TIMEOUT_MS = 2_000;
/** A viewer that has taken nothing for so long, while there was something, is cut: as late as one of our own that answers no ping. */
const STUCK_MS = 60_000;

export interface SocketsToJoin {
  /** The viewer's, after it was answered 101. */
  viewer: Duplex;
  /** To the node that serves it. */
  node: Socket;
  /** What came behind the answer of that node. */
  head: Buffer;
}

/** A viewer's socket and that of the node which serves it: bytes go through both ways, as fast as the slower end takes them. */
export class JoinedSockets {
  /** Resolves when both are closed. */
  readonly ended: Promise<void>;
  readonly #viewer: Duplex;
  readonly #node: Socket;
  readonly #clock: Clock;
  /** What the viewer is sent. */
  readonly #frames = new FrameWalk();
  /** What it is to be told as soon as the frame that it is in the middle of is whole. */
  #ending: { code: number; reason: string } | undefined;
  #told = false;
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

  /** Ends both: the viewer by a close with this code as soon as no frame is in its way, the node at once. */
  end(code: number, reason: string): void {
    if (this.#told || this.#ending !== undefined) return;
    this.#ending = { code, reason };
    this.#cutLater();
    if (this.#frames.at_boundary) this.#tell();
  }

  /** Cuts a viewer that does not read. Call it now and then. */
  cutStuck(): void {
    if (this.#blocked_since !== undefined && this.#clock.monotonic() - this.#blocked_since > STUCK_MS) this.#viewer.destroy();
  }

  #forward(chunk: Buffer): void {
    if (this.#told) return;
    if (this.#ending === undefined) this.#frames.walk(chunk);
    const whole = this.#ending === undefined ? chunk : chunk.subarray(0, this.#frames.step(chunk, 0));
    if (!this.#viewer.write(whole)) {
      this.#blocked_since ??= this.#clock.monotonic();
      this.#node.pause();
    }
    if (this.#ending !== undefined && this.#frames.at_boundary) this.#tell();
  }

  /** The node has said all that it will. Half a frame can only be cut. */
  #nodeLeft(): void {
    this.#cutLater();
    if (this.#told) return;
    this.#ending ??= { code: CLOSE.draining, reason: "the robot's server went away" };
    if (this.#frames.at_boundary) this.#tell();
    else this.#viewer.destroy();
  }

  #tell(): void {
    const { code, reason } = this.#ending!;
    this.#told = true;
    this.#viewer.unpipe(this.#node);
    // What it says from now on is for nobody.
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
