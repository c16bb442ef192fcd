/**
 * The framing of the robot's link: one WebSocket carries many channels. Every binary WebSocket message is one frame:
 *
 *   byte 0     type      see FrameType
 *   byte 1     flags     MORE: the message goes on in the next frame of this channel; REPLY: answer to a PING; BULK: the
 *                        payload is to be acknowledged by CREDIT on channel 0
 *   bytes 2-3  reserved  zero
 *   bytes 4-7  channel   u32 big endian; 0 carries control messages
 *   bytes 8-   payload   at most 64 KiB
 */
export const FrameType = { OPEN: 1, ACCEPT: 2, DATA: 3, CREDIT: 4, CLOSE: 5, RESET: 6, PING: 7, GOAWAY: 8 } as const;
export type FrameType = (typeof FrameType)[keyof typeof FrameType];

export const FLAG_MORE = 1;
export const FLAG_REPLY = 2;
export const FLAG_BULK = 4;

export const FRAME_HEADER_BYTES = 8;
export const FRAME_PAYLOAD_BYTES_MAX = 64 * 1024;
/** A control message may span frames (flag MORE); together they are at most this long. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;

export const CONTROL_CHANNEL = 0;
/** Log records travel on a channel of their own, so that they can be held back behind control. */
export const LOG_CHANNEL = 1;

/** The WebSocket subprotocol: its number grows when old peers would misread the frames. */
export const LINK_SUBPROTOCOL = "robofleet.link.v1";

export interface Frame {
  type: FrameType;
  flags: number;
  channel: number;
  payload: Uint8Array;
}

/** A frame that breaks the protocol: the receiver closes the link with 1002. */
export class FrameError extends Error {}

/** Writes one frame; `headroom` bytes before it stay free for whoever wraps it. Throws FrameError when the payload is too long. */
export function encodeFrame(type: FrameType, channel: number, payload: Uint8Array, flags = 0, headroom = 0): Buffer {
  if (payload.length > FRAME_PAYLOAD_BYTES_MAX)
    throw new FrameError(`payload of ${payload.length} bytes is over ${FRAME_PAYLOAD_BYTES_MAX}`);
  const frame = Buffer.allocUnsafe(headroom + FRAME_HEADER_BYTES + payload.length);
  frame[headroom] = type;
  frame[headroom + 1] = flags;
  frame[headroom + 2] = 0;
  frame[headroom + 3] = 0;
  frame.writeUInt32BE(channel, headroom + 4);
  frame.set(payload, headroom + FRAME_HEADER_BYTES);
  return frame;
}

/** Reads one frame; the payload shares the memory of `bytes`. */
export function decodeFrame(bytes: Buffer): Frame {
  if (bytes.length < FRAME_HEADER_BYTES) throw new FrameError(`frame of ${bytes.length} bytes has no header`);
  if (bytes.length > FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX) throw new FrameError(`frame of ${bytes.length} bytes is too long`);
  const type = bytes[0]!;
  if (type < FrameType.OPEN || type > FrameType.GOAWAY) throw new FrameError(`unknown frame type ${type}`);
  if (bytes[2] !== 0 || bytes[3] !== 0) throw new FrameError("reserved bytes are not zero");
  return { type: type as FrameType, flags: bytes[1]!, channel: bytes.readUInt32BE(4), payload: bytes.subarray(FRAME_HEADER_BYTES) };
}

/** Cuts one message into frames of a channel. */
export function messageFrames(channel: number, message: Uint8Array): Buffer[] {
  if (message.length > MESSAGE_BYTES_MAX) throw new FrameError(`message of ${message.length} bytes is over ${MESSAGE_BYTES_MAX}`);
  const frames: Buffer[] = [];
  let offset = 0;
  do {
    const end = Math.min(offset + FRAME_PAYLOAD_BYTES_MAX, message.length);
    frames.push(encodeFrame(FrameType.DATA, channel, message.subarray(offset, end), end < message.length ? FLAG_MORE : 0));
    offset = end;
  } while (offset < message.length);
  return frames;
}

/** Puts the frames of one channel's messages together again. */
export class MessageAssembler {
  #parts: Uint8Array[] = [];
  #bytes = 0;

  /** Takes a DATA frame's payload; answers the whole message when this was its last frame. */
  push(frame: Frame): Uint8Array | undefined {
    this.#bytes += frame.payload.length;
    if (this.#bytes > MESSAGE_BYTES_MAX) throw new FrameError(`message is over ${MESSAGE_BYTES_MAX} bytes`);
    if (frame.flags & FLAG_MORE) {
      // Copied: the payload shares memory with the socket's buffer, which lives on while we wait.
      this.#parts.push(Uint8Array.from(frame.payload));
      return undefined;
    }
    if (this.#parts.length === 0) {
      this.#bytes = 0;
      return frame.payload;
    }
    const message = Buffer.concat([...this.#parts, frame.payload]);
    this.#parts = [];
    this.#bytes = 0;
    return message;
  }
}
