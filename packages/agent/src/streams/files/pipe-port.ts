import type { Readable, Writable } from "node:stream";
import { FrameError, MESSAGE_BYTES_MAX } from "@roamfleet/protocol/link";
import { drained } from "@roamfleet/protocol/drained";
import type { MessagePort } from "./message-port.ts";

const LENGTH_BYTES = 4;

/** Messages through a pair of pipes, each with a length prefix of four bytes. */
export class PipePort implements MessagePort {
  readonly #chunks: AsyncIterator<Buffer, undefined>;
  readonly #output: Writable;
  #waiting: Buffer[] = [];
  #waiting_bytes = 0;

  constructor(input: Readable, output: Writable) {
    this.#chunks = input[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
    this.#output = output;
    // Errors of a pipe are followed by its close, which is handled.
    input.on("error", () => {});
    output.on("error", () => {});
  }

  async read(): Promise<Uint8Array | undefined> {
    const head = await this.#take(LENGTH_BYTES);
    if (head === undefined) return undefined;
    const length = head.readUInt32BE(0);
    if (length > MESSAGE_BYTES_MAX) throw new FrameError(`message of ${length} bytes is over ${MESSAGE_BYTES_MAX}`);
    return this.#take(length);
  }

  async write(message: Uint8Array): Promise<boolean> {
    const output = this.#output;
    if (output.destroyed || output.writableEnded) return false;
    const head = Buffer.allocUnsafe(LENGTH_BYTES);
    head.writeUInt32BE(message.length, 0);
    output.cork();
    output.write(head);
    const has_room = output.write(message);
    output.uncork();
    if (!has_room) await drained(output);
    return !output.destroyed;
  }

  /** Returns so many bytes, or undefined if the stream ends before. */
  async #take(count: number): Promise<Buffer | undefined> {
    while (this.#waiting_bytes < count) {
      const { value } = await this.#chunks.next().catch(() => ({ value: undefined }));
      if (value === undefined) return undefined;
      this.#waiting.push(value);
      this.#waiting_bytes += value.length;
    }
    const all = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting);
    this.#waiting = all.length > count ? [all.subarray(count)] : [];
    this.#waiting_bytes = all.length - count;
    return all.subarray(0, count);
  }
}
