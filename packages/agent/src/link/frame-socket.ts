import { encodeFrame, type FrameSocket } from "@roamfleet/protocol/link";
import type WebSocket from "ws";

/** The robot's end of the wire. */
export const frameSocket = (socket: WebSocket): FrameSocket => ({
  get bufferedAmount() {
    return socket.bufferedAmount;
  },
  sendFrame: (type, channel, payload, flags, sent) => socket.send(encodeFrame(type, channel, payload, flags), sent),
});
