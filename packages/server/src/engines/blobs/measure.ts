import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { BlobError, type ReceiveOptions } from "./blobs.ts";
import { chunksOf } from "./files.ts";

/** Stores a stream by `write`, which gets the position of each chunk. Rejects with the errors of Measure, and with `interrupted`. */
export async function measure(
  stream: Readable,
  options: ReceiveOptions,
  write: (chunk: Buffer, position: number) => Promise<void>,
): Promise<{ size: number; sha256: string }> {
  const all = new Measure(options);
  for await (const chunk of chunksOf(stream, options.signal)) {
    await write(chunk, all.add(chunk));
    options.on_bytes?.(chunk.byteLength);
  }
  return all.finish();
}

/** Counts and hashes the bytes of one request, and rejects as soon as they cannot match what was announced. */
class Measure {
  readonly #options: Pick<ReceiveOptions, "max_bytes" | "expect">;
  readonly #hash = createHash("sha256");
  #size = 0;

  constructor(options: Pick<ReceiveOptions, "max_bytes" | "expect">) {
    this.#options = options;
  }

  /** Returns the position of the chunk. Rejects with `too_large` or `mismatch`. */
  add(chunk: Uint8Array): number {
    const { max_bytes, expect } = this.#options;
    const position = this.#size;
    this.#size += chunk.byteLength;
    if (this.#size > max_bytes) throw new BlobError("too_large", `more than ${max_bytes} bytes`);
    if (expect?.size !== undefined && this.#size > expect.size)
      throw new BlobError("mismatch", `more than the announced ${expect.size} bytes`);
    this.#hash.update(chunk);
    return position;
  }

  /** Returns the number of bytes and their digest in lower-case hex. Rejects with `mismatch` if they differ from what was announced. */
  finish(): { size: number; sha256: string } {
    const { expect } = this.#options;
    const size = this.#size;
    const sha256 = this.#hash.digest("hex");
    if (expect?.size !== undefined && size !== expect.size)
      throw new BlobError("mismatch", `${size} bytes came, ${expect.size} were announced`);
    if (expect?.sha256 !== undefined && sha256 !== expect.sha256)
      throw new BlobError("mismatch", `the bytes have sha256 ${sha256}, ${expect.sha256} was announced`);
    return { size, sha256 };
  }
}
