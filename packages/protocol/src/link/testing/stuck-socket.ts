import { encodeFrame, FRAME_HEADER_BYTES, type FramePayload, type FrameType } from "../frame.ts";
import type { FrameSocket } from "../send-queue.ts";

export interface SentFrame {
  type: FrameType;
  channel: number;
  payload: Buffer;
  flags: number;
}

/** A socket whose other end reads only on request. */
export class StuckSocket implements FrameSocket {
  bufferedAmount = 0;
  readonly sent: SentFrame[] = [];
  readonly #waiting: { bytes: number; sent: ((error?: Error) => void) | undefined }[] = [];

  sendFrame(type: FrameType, channel: number, payload: FramePayload, flags: number, sent?: (error?: Error) => void): void {
    const frame = encodeFrame(type, channel, payload, flags);
    this.sent.push({ type, channel, payload: frame.subarray(FRAME_HEADER_BYTES), flags });
    this.bufferedAmount += frame.length;
    this.#waiting.push({ bytes: frame.length, sent });
  }

  /** Simulates that the other end reads this many frames. */
  read(frames: number): void {
    for (const { bytes, sent } of this.#waiting.splice(0, frames)) {
      this.bufferedAmount -= bytes;
      sent?.();
    }
  }

  /** Simulates that the other end reads until the socket and the queue behind it are empty. */
  readAll(): void {
    while (this.#waiting.length > 0) this.read(this.#waiting.length);
  }
}
