import { FrameError } from "./frame.ts";

/** The tag byte of a message in a stream's channel. */
const DATA = 0;
const CONTROL = 1;

/** A message of a stream: its data, or a control message. */
export type StreamMessage = { data: Uint8Array; control?: undefined } | { data?: undefined; control: Record<string, unknown> };

/** Encodes data of the stream; copies it once to prepend the tag. */
export function dataMessage(bytes: Uint8Array): Uint8Array {
  const message = new Uint8Array(bytes.length + 1);
  message[0] = DATA;
  message.set(bytes, 1);
  return message;
}

/** Encodes a control message, such as `{ type: "resize", cols: 80, rows: 24 }`. */
export function controlMessage(value: Record<string, unknown>): Uint8Array {
  const json = Buffer.from(JSON.stringify(value));
  const message = new Uint8Array(json.length + 1);
  message[0] = CONTROL;
  message.set(json, 1);
  return message;
}

/** Decodes a message of either type; data shares the message's memory. Throws FrameError for anything else. */
export function readMessage(message: Uint8Array): StreamMessage {
  if (message[0] === DATA) return { data: message.subarray(1) };
  if (message[0] !== CONTROL) throw new FrameError("a message of a stream is neither data nor control");
  try {
    const value: unknown = JSON.parse(Buffer.from(message.buffer, message.byteOffset + 1, message.byteLength - 1).toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { control: value as Record<string, unknown> };
  } catch {
    // Reported below.
  }
  throw new FrameError("control of a stream is not a JSON object");
}
