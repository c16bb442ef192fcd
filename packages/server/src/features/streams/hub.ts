import { CLOSE } from "@roamfleet/protocol";
import { type Channel, ChannelRefused } from "@roamfleet/protocol/link";
import { closeOf } from "./open-at-robot.ts";
import type { Viewer } from "./viewer.ts";

/** Takes a message of a channel for one viewer. It must not wait, and what it keeps it must bound. */
export type TakeShared = (message: Uint8Array) => void;

export interface Sharing {
  /** Viewers with the same key see the same: robot and everything that was asked of it. */
  key: string;
  /** Opens the channel; asked once for all viewers of a key. Rejects with ChannelRefused. */
  open: () => Promise<Channel>;
  viewer: Viewer;
  take: TakeShared;
  /** One that comes later is given the newest message at once. */
  greet?: boolean;
}

interface Source {
  takers: Map<Viewer, TakeShared>;
  channel: Channel | undefined;
  newest: Uint8Array | undefined;
}

/** One channel to a robot for all who watch the same: it is opened for the first of them and ends with the last. */
export class Hub {
  readonly #sources = new Map<string, Source>();

  /** Resolves when the viewer is among those who are served, or its stream has been closed since there is nothing to be had. */
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
      // Everybody may have left meanwhile.
      if (source.takers.size === 0) return channel.close(1000, "nobody watches any more");
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

  /** Reads as fast as the robot sends: takers never wait, so the credit that this gives is the server's, not a viewer's. */
  async #pump(key: string, source: Source, channel: Channel): Promise<void> {
    try {
      for await (const message of channel) {
        source.newest = message;
        for (const take of source.takers.values()) take(message);
      }
    } catch {
      // What a robot says is not to be relied on.
      channel.reset(CLOSE.ended_by_robot, "what the robot sent means nothing here");
    }
    const { code, reason } = closeOf(await channel.ended);
    this.#end(key, source, code, reason);
  }

  #leave(key: string, source: Source, viewer: Viewer): void {
    if (!source.takers.delete(viewer) || source.takers.size > 0) return;
    if (this.#sources.get(key) === source) this.#sources.delete(key);
    source.channel?.close(1000, "nobody watches any more");
  }

  #end(key: string, source: Source, code: number, reason: string): void {
    if (this.#sources.get(key) === source) this.#sources.delete(key);
    for (const viewer of Array.from(source.takers.keys())) viewer.close(code, reason);
  }

  /** Sources that are open, for metrics and tests. */
  get size(): number {
    return this.#sources.size;
  }
}
