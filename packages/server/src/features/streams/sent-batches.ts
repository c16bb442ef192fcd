import type { BatchKey, LiveBatch } from "../logs/index.ts";

/** Live flushes are heard of a moment after they are stored; more are not stored in that moment. */
const KEPT_MAX = 4_096;
/** What comes live while stored records are read; beyond, it is read from the database as well. */
const COLLECTED_BYTES_MAX = 1024 * 1024;
/** What a record takes beside its message. */
const RECORD_BYTES = 256;

const keyOf = (robot_id: string, received_at: string, first_seq: number): string => `${robot_id} ${received_at} ${first_seq}`;

/** Batches that were read from the database, so that none of them is sent again when it is heard of live. */
export class SentBatches {
  readonly #keys = new Set<string>();

  add({ robot_id, received_at, first_seq }: BatchKey): void {
    this.#keys.add(keyOf(robot_id, received_at.toISOString(), first_seq));
    if (this.#keys.size > KEPT_MAX) for (const oldest of this.#keys.keys()) return void this.#keys.delete(oldest);
  }

  has({ robot_id, received_at, records }: LiveBatch): boolean {
    return this.#keys.has(keyOf(robot_id, received_at, records[0]?.seq ?? 0));
  }
}

/** Flushes that wait until what was stored before them has been sent. */
export class Collected {
  batches: LiveBatch[] = [];
  #bytes = 0;

  /** False when there is no room: then it is not kept. */
  add(batch: LiveBatch): boolean {
    const bytes = batch.records.reduce((sum, { message }) => sum + message.length + RECORD_BYTES, 0);
    if (this.#bytes + bytes > COLLECTED_BYTES_MAX) return false;
    this.#bytes += bytes;
    this.batches.push(batch);
    return true;
  }
}
