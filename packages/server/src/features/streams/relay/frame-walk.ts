const HEADER_BYTES_MAX = 14;
const MASKED = 0x80;
const LENGTH_OF_16_BITS = 126;
const LENGTH_OF_64_BITS = 127;
const CLOSE = 8;

/** Follows the bytes of one direction of a WebSocket from frame to frame, by their headers: it knows where one may put a frame in between. */
export class FrameWalk {
  readonly #header = Buffer.alloc(HEADER_BYTES_MAX);
  /** Bytes of the header so far. */
  #held = 0;
  /** Bytes of the payload that are still to come. */
  #left = 0;
  #close_seen = false;

  /** Between two frames. */
  get at_boundary(): boolean {
    return this.#held === 0 && this.#left === 0;
  }

  /** A close frame has begun: nothing may be sent behind it. */
  get close_seen(): boolean {
    return this.#close_seen;
  }

  /** Goes on to the end of the frame that it is in, or of the chunk; answers how far that is. */
  step(chunk: Uint8Array, from: number): number {
    let at = from;
    if (this.#left === 0) {
      while (this.#held < this.#headerBytes()) {
        if (at === chunk.length) return at;
        this.#header[this.#held++] = chunk[at++]!;
      }
      this.#close_seen ||= (this.#header[0]! & 0x0f) === CLOSE;
      this.#left = this.#payloadBytes();
      this.#held = 0;
    }
    const taken = Math.min(this.#left, chunk.length - at);
    this.#left -= taken;
    return at + taken;
  }

  /** Goes through a whole chunk. */
  walk(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) at = this.step(chunk, at);
  }

  /** As far as is known: the second byte says. */
  #headerBytes(): number {
    if (this.#held < 2) return 2;
    const second = this.#header[1]!;
    const length = second & ~MASKED;
    return 2 + (length === LENGTH_OF_16_BITS ? 2 : length === LENGTH_OF_64_BITS ? 8 : 0) + (second & MASKED ? 4 : 0);
  }

  #payloadBytes(): number {
    const length = this.#header[1]! & ~MASKED;
    if (length === LENGTH_OF_16_BITS) return this.#header.readUInt16BE(2);
    // Past 2^53 it is not exact, and such a frame has no end in our time.
    return length === LENGTH_OF_64_BITS ? this.#header.readUInt32BE(2) * 2 ** 32 + this.#header.readUInt32BE(6) : length;
  }
}

/** A close frame as a server sends it. The reason has 123 bytes at most. */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason);
  const frame = Buffer.alloc(4 + text.length);
  frame.set([0x80 | CLOSE, 2 + text.length]);
  frame.writeUInt16BE(code, 2);
  frame.set(text, 4);
  return frame;
}
