import { CONTROL_CHANNEL, type Frame } from "./frame.ts";

/** Payload of a robot's PING that requests the server's time. A server without support replies with the same byte. */
export const ASK_TIME = Uint8Array.of(0x74);
const TIME_BYTES = 8;

export const asksTime = ({ channel, payload }: Frame): boolean =>
  channel === CONTROL_CHANNEL && payload.length === 1 && payload[0] === ASK_TIME[0];

/** Payload of the reply: milliseconds since 1970, unsigned, big-endian. */
export function timeReply(time: number): Uint8Array {
  const bytes = Buffer.alloc(TIME_BYTES);
  bytes.writeBigUInt64BE(BigInt(Math.max(0, Math.round(time))));
  return bytes;
}

/** Parses the server's time from the reply, if a Date can represent it; otherwise undefined. */
export function timeInReply({ channel, payload }: Frame): number | undefined {
  if (channel !== CONTROL_CHANNEL || payload.length !== TIME_BYTES) return undefined;
  const time = Number(Buffer.from(payload).readBigUInt64BE());
  return time <= 8.64e15 ? time : undefined;
}
