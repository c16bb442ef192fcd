import { CLOSE } from "@roamfleet/protocol";
import { type Channel, ChannelRefused } from "@roamfleet/protocol/link";
import { closeOf } from "./robot-channel.ts";
import type { Viewer } from "./viewer.ts";

/** Processes a message of a shared channel for one viewer. It must not block, and must limit the data that it buffers. */
type TakeShared = (message: Uint8Array) => void;

interface Sharing {
  /** Identifies the robot and all parameters of the stream. Viewers with the same key share a channel. */
  key: string;
  /** Opens the channel. It is called only for the first viewer of a key. Rejects with ChannelRefused. */
  open: () => Promise<Channel>;
  viewer: Viewer;
  take: TakeShared;
  /** Whether a viewer that joins an open channel immediately gets the newest message of the channel. */
  greet?: boolean;
}

interface Source {
  takers: Map<Viewer, TakeShared>;
  channel: Channel | undefined;
  newest: Uint8Array | undefined;
}

/**
 * Shares one channel to a robot among viewers with the same key. Opens the channel for the first viewer, and closes it after the last one
 * has left.
 */
export class Hub {
  readonly #sources = new Map<string, Source>();

  /**
   * Adds a viewer to a channel. For the first viewer, resolves when the channel is open, or when it failed and the viewer's stream was
   * closed.
   */
  async share({ key, open, viewer, take, greet }: Sharing): Promise<void> {
    if (!viewer.open) return;
    let source = this.#sources.get(key);
    if (source === undefined) {
      source = { takers: new Map(), channel: undefined, newest: undefined };
      this.#sources.set(key, source);
    }
    const joined = source;
    const first = joined.takers.size === 0;
    joined.takers.set(viewer, take);
    viewer.onEnd = () => this.#leave(key, joined, viewer);
    if (first) await this.#open(key, joined, open);
    else if (greet === true && joined.newest !== undefined) take(joined.newest);
  }

  async #open(key: string, source: Source, open: () => Promise<Channel>): Promise<void> {
    try {
      const channel = await open();
      // All viewers may have left while the channel was being opened.
      if (source.takers.size === 0) return channel.close(1000, "no viewers left");
      source.channel = channel;
      void this.#pump(key, source, channel);
    } catch (error) {
      if (!(error instanceof ChannelRefused)) {
        this.#end(key, source, 1011, "the server could not serve the stream");
        throw error;
      }
      const { code, reason } = closeOf({ code: error.code, reason: error.message });
      this.#end(key, source, code, reason);
    }
  }

  /**
   * Forwards messages of a channel to its viewers as fast as the robot sends them. Never waits for a viewer, so that a slow viewer does not
   * delay the others.
   */
  async #pump(key: string, source: Source, channel: Channel): Promise<void> {
    try {
      for await (const message of channel) {
        source.newest = message;
        for (const take of source.takers.values()) take(message);
      }
    } catch {
      // `take` may throw on an invalid message, because messages of robots are untrusted.
      channel.reset(CLOSE.ended_by_robot, "the robot sent an invalid message");
    }
    const { code, reason } = closeOf(await channel.ended);
    this.#end(key, source, code, reason);
  }

  #leave(key: string, source: Source, viewer: Viewer): void {
    if (!source.takers.delete(viewer) || source.takers.size > 0) return;
    if (this.#sources.get(key) === source) this.#sources.delete(key);
    source.channel?.close(1000, "no viewers left");
  }

  #end(key: string, source: Source, code: number, reason: string): void {
    if (this.#sources.get(key) === source) this.#sources.delete(key);
    for (const viewer of Array.from(source.takers.keys())) viewer.close(code, reason);
  }

  /** Number of open channels, for metrics and tests. */
  get size(): number {
    return this.#sources.size;
  }
}

/**
 * Sends frames of a stream in which only the newest frame matters. While a frame is being sent to the viewer, at most one other frame is
 * queued, and a newer frame replaces it. So a viewer that does not read uses the memory of two frames, which several viewers may share.
 */
export class LatestSlot<T> {
  readonly #viewer: Viewer;
  readonly #encode: (frame: T, skipped: number) => Uint8Array | string;
  #waiting: { frame: T } | undefined;
  #skipped = 0;
  #sending = false;

  /** `encode` serializes a frame. Its parameter `skipped` is the number of frames that were replaced since the last sent frame. */
  constructor(viewer: Viewer, encode: (frame: T, skipped: number) => Uint8Array | string) {
    this.#viewer = viewer;
    this.#encode = encode;
  }

  offer(frame: T): void {
    if (this.#sending) {
      if (this.#waiting !== undefined) this.#skipped += 1;
      this.#waiting = { frame };
    } else this.#send(frame);
  }

  #send(frame: T): void {
    if (!this.#viewer.open) return;
    this.#sending = true;
    const skipped = this.#skipped;
    this.#skipped = 0;
    this.#viewer.ws.send(this.#encode(frame, skipped), this.#sent);
  }

  /**
   * The callback of every send. All sends share it, because creating a function for each of some thousand frames a second would be
   * expensive.
   */
  readonly #sent = (error?: Error | null): void => {
    this.#sending = false;
    const next = this.#waiting;
    this.#waiting = undefined;
    // `error` is null or undefined if the frame was sent.
    if (next !== undefined && !error) this.#send(next.frame);
  };
}
