import { FrameError } from "./frame.ts";

/** The first byte of a message of a stream's channel: what the rest is. */
const DATA = 0;
const CONTROL = 1;

/** What a message of a stream is: bytes of the stream itself, or a word about it. */
export type StreamMessage = { data: Uint8Array; control?: undefined } | { data?: undefined; control: Record<string, unknown> };

/** Bytes of the stream; copied once, for the tag before them. */
export function dataMessage(bytes: Uint8Array): Uint8Array {
  const message = new Uint8Array(bytes.length + 1);
  message[0] = DATA;
  message.set(bytes, 1);
  return message;
}

/** A word about the stream, such as `{ type: "resize", cols: 80, rows: 24 }`. */
export function controlMessage(value: Record<string, unknown>): Uint8Array {
  const json = Buffer.from(JSON.stringify(value));
  const message = new Uint8Array(json.length + 1);
  message[0] = CONTROL;
  message.set(json, 1);
  return message;
}

/** Reads what the two above made; data shares the memory of the message. Throws FrameError for anything else. */
export function readMessage(message: Uint8Array): StreamMessage {
  if (message[0] === DATA) return { data: message.subarray(1) };
  if (message[0] !== CONTROL) throw new FrameError("a message of a stream is neither data nor control");
  try {
    const value: unknown = JSON.parse(Buffer.from(message.buffer, message.byteOffset + 1, message.byteLength - 1).toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { control: value as Record<string, unknown> };
  } catch {
    // Told below.
  }
  throw new FrameError("control of a stream is not a JSON object");
}
