const HEADER_BYTES_MAX = 14;
const MASKED = 0x80;
const LENGTH_OF_16_BITS = 126;
const LENGTH_OF_64_BITS = 127;
const CLOSE = 8;

/** Parses the frame headers in one direction of a WebSocket, to find the boundaries where a frame can be inserted. */
export class FrameWalk {
  readonly #header = Buffer.alloc(HEADER_BYTES_MAX);
  /** Bytes of the present header received so far. */
  #held = 0;
  /** Remaining bytes of the present payload. */
  #left = 0;
  #close_seen = false;

  /** Whether the position is between two frames. */
  get at_boundary(): boolean {
    return this.#held === 0 && this.#left === 0;
  }

  /** Whether a close frame has started, after which nothing may be sent. */
  get close_seen(): boolean {
    return this.#close_seen;
  }

  /** Advances to the end of the present frame or of the chunk, and returns the new position. */
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

  /** Processes a whole chunk. */
  walk(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) at = this.step(chunk, at);
  }

  /** Length of the present header, as far as known: the second byte determines it. */
  #headerBytes(): number {
    if (this.#held < 2) return 2;
    const second = this.#header[1]!;
    const length = second & ~MASKED;
    return 2 + (length === LENGTH_OF_16_BITS ? 2 : length === LENGTH_OF_64_BITS ? 8 : 0) + (second & MASKED ? 4 : 0);
  }

  #payloadBytes(): number {
    const length = this.#header[1]! & ~MASKED;
    if (length === LENGTH_OF_16_BITS) return this.#header.readUInt16BE(2);
    // Not exact above 2^53, but a frame of that length never ends in practice.
    return length === LENGTH_OF_64_BITS ? this.#header.readUInt32BE(2) * 2 ** 32 + this.#header.readUInt32BE(6) : length;
  }
}

/** Encodes a server's close frame. The reason has at most 123 bytes. */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason);
  const frame = Buffer.alloc(4 + text.length);
  frame.set([0x80 | CLOSE, 2 + text.length]);
  frame.writeUInt16BE(code, 2);
  frame.set(text, 4);
  return frame;
}
