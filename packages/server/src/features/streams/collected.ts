import type { LiveBatch } from "../logs/index.ts";

/** Most bytes of live flushes buffered while stored records are read. If there are more, they are read from the database. */
const COLLECTED_BYTES_MAX = 1024 * 1024;
/** Memory of a record in addition to its message. */
const RECORD_BYTES = 256;

/** Estimates the memory of a flush. */
export const bytesOfBatch = ({ records }: LiveBatch): number =>
  records.reduce((sum, { message }) => sum + message.length + RECORD_BYTES, 0);

/** A bounded buffer of live flushes, until the stored records before them have been sent. */
export class Collected<T = LiveBatch> {
  batches: T[] = [];
  #bytes = 0;

  /** Returns false, without adding the flush, if the buffer is full. */
  add(batch: T, bytes: number): boolean {
    if (this.#bytes + bytes > COLLECTED_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.batches.push(batch);
    return true;
  }
}
