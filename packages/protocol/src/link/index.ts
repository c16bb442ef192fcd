export { Channel, type ChannelEnd, ChannelRefused } from "./channel.ts";
export {
  BulkReceipts,
  CHANNELS_MAX,
  ChannelTable,
  type ChannelTableOptions,
  CLOSE_NOT_AVAILABLE,
  CreditGiver,
  type StreamSource,
} from "./channel-table.ts";
export * from "./frame.ts";
export * from "./limits.ts";
export type * from "./messages.ts";
export * from "./negotiation.ts";
export { packMessage, unpackMessage } from "./packed.ts";
export { BULK_BYTES_MAX, BULK_BYTES_MIN, RateMeter, SLOW_SLICE_BYTES } from "./rate-meter.ts";
export {
  CHANNEL_WINDOW_BYTES,
  ITEM_OVERHEAD_BYTES,
  LINK_RECEIVE_BYTES_MAX,
  ReceiveMemory,
  type ReceiveMemoryOptions,
} from "./receive-memory.ts";
export {
  type FrameSocket,
  QUEUE_BYTES_MAX,
  SEND_CLASSES,
  type SendClass,
  SendQueue,
  type SendQueueOptions,
  SOCKET_BYTES_MAX,
} from "./send-queue.ts";
export * from "./series-chunk.ts";
export * from "./signing.ts";
export * from "./streams.ts";
