import type { Duplex } from "node:stream";
import {
  CONTROL_CHANNEL,
  encodeFrame,
  FLAG_REPLY,
  FRAME_HEADER_BYTES,
  type FramePayload,
  type FrameSocket,
  FrameType,
  payloadBytes,
} from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";

/** First byte of an unfragmented binary WebSocket message (RFC 6455, 5.2). */
const BINARY_WHOLE = 0x82;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const LENGTH_7_MAX = 125;
const LENGTH_16_MAX = 0xffff;

/** The reply to a heartbeat as a complete WebSocket message. It is encoded once, because all replies without a payload are equal. */
const PONG = webSocketFrame(FrameType.PING, CONTROL_CHANNEL, new Uint8Array(0), FLAG_REPLY);

/**
 * The server's end of a link. For speed, it sends without the ws library: each frame becomes a complete WebSocket message in one buffer,
 * sent by one write, where ws needs several of both. This works because links are not compressed.
 */
export class ServerFrameSocket implements FrameSocket {
  readonly #ws: WebSocket;
  readonly #socket: Duplex;

  constructor(ws: WebSocket, socket: Duplex) {
    this.#ws = ws;
    this.#socket = socket;
  }

  get bufferedAmount(): number {
    return this.#socket.writableLength;
  }

  sendFrame(type: FrameType, channel: number, payload: FramePayload, flags: number, sent?: (error?: Error) => void): void {
    // After the close frame, no further data may be sent.
    if (this.#ws.readyState !== this.#ws.OPEN) return sent?.(new Error("the link is closing"));
    const is_pong = type === FrameType.PING && flags === FLAG_REPLY && payload.length === 0 && channel === CONTROL_CHANNEL;
    const bytes = is_pong ? PONG : webSocketFrame(type, channel, payload, flags);
    if (sent === undefined) this.#socket.write(bytes);
    else this.#socket.write(bytes, (error) => sent(error ?? undefined));
  }
}

function webSocketFrame(type: FrameType, channel: number, payload: FramePayload, flags: number): Buffer {
  const length = FRAME_HEADER_BYTES + payloadBytes(payload);
  const header_bytes = length <= LENGTH_7_MAX ? 2 : length <= LENGTH_16_MAX ? 4 : 10;
  const bytes = encodeFrame(type, channel, payload, flags, header_bytes);
  bytes[0] = BINARY_WHOLE;
  if (header_bytes === 2) bytes[1] = length;
  else if (header_bytes === 4) {
    bytes[1] = LENGTH_16;
    bytes.writeUInt16BE(length, 2);
  } else {
    bytes[1] = LENGTH_64;
    bytes.writeUInt32BE(0, 2);
    bytes.writeUInt32BE(length, 6);
  }
  return bytes;
}
