import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { BlobError, type ReceiveOptions } from "./blobs.ts";
import { chunksOf } from "./files.ts";

/** Stores all of a stream by `write`, which is told where each chunk begins. Rejects as Measure does, and with `interrupted`. */
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

/** Counts and digests what comes in one request, and refuses it as soon as it cannot be what was announced. */
class Measure {
  readonly #options: Pick<ReceiveOptions, "max_bytes" | "expect">;
  readonly #hash = createHash("sha256");
  #size = 0;

  constructor(options: Pick<ReceiveOptions, "max_bytes" | "expect">) {
    this.#options = options;
  }

  /** Rejects with `too_large` or `mismatch`; answers the position at which the chunk begins. */
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

  /** Bytes and digest in lower-case hex. Rejects with `mismatch` when they are not what was announced. */
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
