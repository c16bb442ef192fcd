import { ChannelTable, type StreamSource } from "../channel-table.ts";
import { decodeFrame, encodeFrame } from "../frame.ts";
import { SendQueue } from "../send-queue.ts";

/** The channels of a link's two ends, without the link between: what one sends, the other has in the next turn. */
export function channelPair(sources: Record<string, StreamSource>): { server: ChannelTable; robot: ChannelTable } {
  const end = (name: "server" | "robot", other: () => ChannelTable): ChannelTable => {
    const queue = new SendQueue(
      {
        bufferedAmount: 0,
        sendFrame: (type, channel, payload, flags, sent) => {
          const bytes = encodeFrame(type, channel, payload, flags);
          queueMicrotask(() => {
            other().receive(decodeFrame(bytes));
            sent?.();
          });
        },
      },
      { now: () => performance.now() },
    );
    const table: ChannelTable = new ChannelTable({
      queue,
      end: name,
      clock: {
        setTimer: (ms, work) => {
          const timer = setTimeout(work, ms);
          return { cancel: () => clearTimeout(timer) };
        },
      },
      sources: new Map(Object.entries(sources)),
      stuck: () => {
        throw new Error("the other end takes nothing");
      },
    });
    queue.on_room = () => table.retry();
    return table;
  };
  const server: ChannelTable = end("server", () => robot);
  const robot: ChannelTable = end("robot", () => server);
  return { server, robot };
}
