import type { LiveBatch } from "../logs/index.ts";

/** What comes live while stored records are read; beyond, it is read from the database as well. */
const COLLECTED_BYTES_MAX = 1024 * 1024;
/** What a record takes beside its message. */
const RECORD_BYTES = 256;

/** What a flush takes in memory, roughly. */
export const bytesOfBatch = ({ records }: LiveBatch): number =>
  records.reduce((sum, { message }) => sum + message.length + RECORD_BYTES, 0);

/** Flushes that wait until what was stored before them has been sent. */
export class Collected<T = LiveBatch> {
  batches: T[] = [];
  #bytes = 0;

  /** False when there is no room: then it is not kept. */
  add(batch: T, bytes: number): boolean {
    if (this.#bytes + bytes > COLLECTED_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.batches.push(batch);
    return true;
  }
}
