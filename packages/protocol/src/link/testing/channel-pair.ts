import assert from "node:assert/strict";
import { ChannelTable, type StreamSource } from "../channel-table.ts";
import { decodeFrame, encodeFrame, type FrameType } from "../frame.ts";
import { SendQueue } from "../send-queue.ts";

export interface ChannelPair {
  /** The server's end: `open` opens a channel at the robot. */
  server: ChannelTable;
  /** The robot's end; `size` is its number of channels. */
  robot: ChannelTable;
  /** Closes the link at both ends. */
  cut(reason?: string): void;
}

/**
 * Connects the channels of a link's two ends by a socket whose buffer fills and drains. Each frame arrives in a separate event loop turn.
 */
export function channelPair(sources: Record<string, StreamSource>): ChannelPair {
  const server: ChannelTable = end("server", sources, () => robot);
  const robot: ChannelTable = end("robot", sources, () => server);
  return {
    server,
    robot,
    cut: (reason = "cut") => {
      server.endAll(reason);
      robot.endAll(reason);
    },
  };
}

function end(name: "server" | "robot", sources: Record<string, StreamSource>, other: () => ChannelTable): ChannelTable {
  const queue = new SendQueue(new Wire(other), { now: () => performance.now() });
  const table = new ChannelTable({
    queue,
    end: name,
    clock: {
      setTimer: (ms, work) => {
        const timer = setTimeout(work, ms);
        return { cancel: () => clearTimeout(timer) };
      },
    },
    sources: new Map(Object.entries(sources)),
    stuck: assert.fail,
  });
  queue.on_room = () => table.retry();
  return table;
}

/** The socket that the queue writes to. */
class Wire {
  bufferedAmount = 0;
  readonly #sent: (() => void)[] = [];
  readonly #other: () => ChannelTable;

  constructor(other: () => ChannelTable) {
    this.#other = other;
  }

  sendFrame(type: FrameType, channel: number, payload: Uint8Array, flags: number, sent?: () => void): void {
    const bytes = encodeFrame(type, channel, payload, flags);
    this.bufferedAmount += bytes.length;
    this.#sent.push(() => {
      this.bufferedAmount -= bytes.length;
      this.#other().receive(decodeFrame(bytes));
      sent?.();
    });
    if (this.#sent.length === 1) setImmediate(() => this.#deliver());
  }

  #deliver(): void {
    this.#sent[0]?.();
    this.#sent.shift();
    if (this.#sent.length > 0) setImmediate(() => this.#deliver());
  }
}
