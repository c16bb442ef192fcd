import assert from "node:assert/strict";
import { systemClock } from "@robofleet/clock";
import { type Channel, ChannelTable, decodeFrame, encodeFrame, SendQueue, type StreamSource } from "@robofleet/protocol/link";

export interface ChannelPair {
  /** Opens a channel at the robot, as the server does. */
  open(kind: string, send_class: "shell" | "logs" | "topics" | "camera", params?: unknown): Promise<Channel>;
  /** The link is gone, at both ends. */
  cut(reason?: string): void;
  /** Channels that the robot holds. */
  readonly open_at_robot: number;
}

/** A link without a socket: the server's table of channels and a robot's one with these sources. Each frame arrives in a turn of its own. */
export function channelPair(sources: Record<string, StreamSource>): ChannelPair {
  const end = (name: "server" | "robot", other: () => ChannelTable): ChannelTable => {
    const sent: (() => void)[] = [];
    const socket = {
      bufferedAmount: 0,
      sendFrame: (...[type, channel, payload, flags, done]: Parameters<ConstructorParameters<typeof SendQueue>[0]["sendFrame"]>) => {
        const bytes = encodeFrame(type, channel, payload, flags);
        socket.bufferedAmount += bytes.length;
        sent.push(() => {
          socket.bufferedAmount -= bytes.length;
          other().receive(decodeFrame(bytes));
          done?.();
        });
        if (sent.length === 1) setImmediate(deliver);
      },
    };
    const deliver = (): void => {
      sent[0]?.();
      sent.shift();
      if (sent.length > 0) setImmediate(deliver);
    };
    const queue = new SendQueue(socket, { now: () => performance.now() });
    const table = new ChannelTable({ queue, end: name, clock: systemClock, sources: new Map(Object.entries(sources)), stuck: assert.fail });
    queue.on_room = () => table.retry();
    return table;
  };
  const server: ChannelTable = end("server", () => robot);
  const robot: ChannelTable = end("robot", () => server);
  return {
    open: (kind, send_class, params) => server.open(kind, send_class, params),
    cut: (reason = "cut") => {
      server.endAll(reason);
      robot.endAll(reason);
    },
    get open_at_robot() {
      return robot.size;
    },
  };
}
