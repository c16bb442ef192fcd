import { encodeFrame, type FrameSocket } from "@roamfleet/protocol/link";
import type WebSocket from "ws";

/** Adapts the robot's WebSocket to FrameSocket. */
export const frameSocket = (socket: WebSocket): FrameSocket => ({
  get bufferedAmount() {
    return socket.bufferedAmount;
  },
  sendFrame: (type, channel, payload, flags, sent) => socket.send(encodeFrame(type, channel, payload, flags), sent),
});
