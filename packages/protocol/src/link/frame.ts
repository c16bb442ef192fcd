import { ReceiveMemory } from "./receive-memory.ts";

/**
 * The framing of the robot's link: one WebSocket carries many channels. Every binary WebSocket message is one frame:
 *
 *   byte 0     type      see FrameType
 *   byte 1     flags     MORE: the message continues in the next frame of this channel; REPLY: answer to a PING; BULK: the
 *                        payload is to be acknowledged by CREDIT on channel 0; PACKED: the message is compressed
 *   bytes 2-3  reserved  zero
 *   bytes 4-7  channel   u32 big endian; 0 carries control messages
 *   bytes 8-   payload   at most 64 KiB
 */
export const FrameType = { OPEN: 1, ACCEPT: 2, DATA: 3, CREDIT: 4, CLOSE: 5, RESET: 6, PING: 7, GOAWAY: 8 } as const;
export type FrameType = (typeof FrameType)[keyof typeof FrameType];

export const FLAG_MORE = 1;
export const FLAG_REPLY = 2;
export const FLAG_BULK = 4;
/**
 * This flag is set in every frame of a compressed message. Only robots send it, on the control and the log channel, to servers with the
 * feature `packed`.
 */
export const FLAG_PACKED = 8;

export const FRAME_HEADER_BYTES = 8;
export const FRAME_PAYLOAD_BYTES_MAX = 64 * 1024;
/** Maximum bytes of one message, which may span several frames (flag MORE). */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;
/**
 * Maximum frames of one message. It is enough for the longest message in frames of 1 KiB. Senders use frames of at least 4 KiB, except at
 * the end of their credit if the message needs several frames.
 */
export const MESSAGE_PARTS_MAX = 4_096;
/** Maximum bytes of a PING's payload, which the reply repeats. */
export const PING_PAYLOAD_BYTES_MAX = 125;

export const CONTROL_CHANNEL = 0;
/** Channel of log records. It is separate, so that control messages can overtake log records. */
export const LOG_CHANNEL = 1;

/** The WebSocket subprotocol of the link. Its number increases when older peers would misread the frames. */
export const LINK_SUBPROTOCOL = "roamfleet.link.v1";

/**
 * Protocol name that robots add to their TLS ClientHello (ALPN). The server never selects it. It shows before the handshake that the client
 * is a robot, so that a storm of robots does not delay the handshakes of people.
 */
export const ROBOT_ALPN = "roamfleet-robot";
/** The protocols that a robot offers in its TLS ClientHello, most preferred first. */
export const ROBOT_ALPN_PROTOCOLS: readonly string[] = ["http/1.1", ROBOT_ALPN];

export interface Frame {
  type: FrameType;
  flags: number;
  channel: number;
  payload: Uint8Array;
}

/** Thrown for a frame that violates the protocol. The receiver then closes the link with code 1002. */
export class FrameError extends Error {}

/** Content of a frame. Text becomes UTF-8 in the frame's own buffer, which saves a copy. */
export type FramePayload = Uint8Array | string;

export const payloadBytes = (payload: FramePayload): number => (typeof payload === "string" ? Buffer.byteLength(payload) : payload.length);

/** Encodes one frame, leaving `headroom` bytes free before it. Throws FrameError if the payload is too long. */
export function encodeFrame(type: FrameType, channel: number, payload: FramePayload, flags = 0, headroom = 0): Buffer {
  const length = payloadBytes(payload);
  if (length > FRAME_PAYLOAD_BYTES_MAX) throw new FrameError(`payload of ${length} bytes is over ${FRAME_PAYLOAD_BYTES_MAX}`);
  const frame = Buffer.allocUnsafe(headroom + FRAME_HEADER_BYTES + length);
  frame[headroom] = type;
  frame[headroom + 1] = flags;
  frame[headroom + 2] = 0;
  frame[headroom + 3] = 0;
  frame.writeUInt32BE(channel, headroom + 4);
  if (typeof payload === "string") frame.write(payload, headroom + FRAME_HEADER_BYTES);
  else frame.set(payload, headroom + FRAME_HEADER_BYTES);
  return frame;
}

/** Decodes one frame; the payload shares the memory of `bytes`. */
export function decodeFrame(bytes: Buffer): Frame {
  if (bytes.length < FRAME_HEADER_BYTES) throw new FrameError(`frame of ${bytes.length} bytes has no header`);
  if (bytes.length > FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX) throw new FrameError(`frame of ${bytes.length} bytes is too long`);
  const type = bytes[0]!;
  if (type < FrameType.OPEN || type > FrameType.GOAWAY) throw new FrameError(`unknown frame type ${type}`);
  if (bytes[2] !== 0 || bytes[3] !== 0) throw new FrameError("reserved bytes are not zero");
  if (type === FrameType.PING && bytes.length > FRAME_HEADER_BYTES + PING_PAYLOAD_BYTES_MAX)
    throw new FrameError(`ping of ${bytes.length - FRAME_HEADER_BYTES} bytes is over ${PING_PAYLOAD_BYTES_MAX}`);
  return { type: type as FrameType, flags: bytes[1]!, channel: bytes.readUInt32BE(4), payload: bytes.subarray(FRAME_HEADER_BYTES) };
}

/** Splits one message into frames of a channel. */
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

export interface AssemblerOptions {
  /** Maximum message size in bytes. */
  bytes_max?: number;
  /** Memory budget of the whole link. Without it, this channel has a separate budget. */
  memory?: ReceiveMemory;
}

/**
 * Joins the frames of one channel into messages. Throws FrameError for a message that is too long, has too many parts, or has an empty
 * part.
 */
export class MessageAssembler {
  readonly #bytes_max: number;
  readonly #memory: ReceiveMemory;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #cost = 0;

  constructor({ bytes_max = MESSAGE_BYTES_MAX, memory = new ReceiveMemory() }: AssemblerOptions = {}) {
    this.#bytes_max = bytes_max;
    this.#memory = memory;
  }

  /** Adds a DATA frame's payload; returns the message when this was its last frame. */
  push(frame: Frame): Uint8Array | undefined {
    const { payload } = frame;
    if (this.#bytes + payload.length > this.#bytes_max) throw new FrameError(`message is over ${this.#bytes_max} bytes`);
    if ((frame.flags & FLAG_MORE) !== 0) return this.#keep(payload);
    if (this.#parts.length === 0) return payload;
    const message = Buffer.concat([...this.#parts, payload]);
    this.clear();
    return message;
  }

  /** Drops the parts of an incomplete message. */
  clear(): void {
    this.#memory.release(this.#cost);
    this.#parts = [];
    this.#bytes = 0;
    this.#cost = 0;
  }

  #keep(payload: Uint8Array): undefined {
    if (payload.length === 0) throw new FrameError("an empty frame announces that its message continues");
    if (this.#parts.length >= MESSAGE_PARTS_MAX) throw new FrameError(`message has more than ${MESSAGE_PARTS_MAX} parts`);
    const cost = this.#memory.take(payload.length);
    if (cost === undefined) throw new FrameError("the parts of incomplete messages take too much memory");
    this.#cost += cost;
    this.#bytes += payload.length;
    // Copy the payload. It shares the socket's buffer, which would otherwise stay allocated until the message is complete.
    this.#parts.push(Uint8Array.from(payload));
  }
}

/** Payload of a robot's PING that requests the server's time. A server without support replies with the same byte. */
export const ASK_TIME = Uint8Array.of(0x74);
const TIME_BYTES = 8;

export const asksTime = ({ channel, payload }: Frame): boolean =>
  channel === CONTROL_CHANNEL && payload.length === 1 && payload[0] === ASK_TIME[0];

/** Encodes the reply to a PING that requests the time: milliseconds since 1970, unsigned, big-endian. */
export function timeReply(time: number): Uint8Array {
  const bytes = Buffer.alloc(TIME_BYTES);
  bytes.writeBigUInt64BE(BigInt(Math.max(0, Math.round(time))));
  return bytes;
}

/** Parses the server's time from a reply to a PING. Returns undefined if a Date cannot represent it. */
export function timeInReply({ channel, payload }: Frame): number | undefined {
  if (channel !== CONTROL_CHANNEL || payload.length !== TIME_BYTES) return undefined;
  const time = Number(Buffer.from(payload).readBigUInt64BE());
  return time <= 8.64e15 ? time : undefined;
}
