import type { BatchKey, LiveBatch } from "../logs/index.ts";

/** Which flush of which robot, as it goes over the wire. */
export interface FlushKey {
  robot_id: string;
  received_at: string;
  first_seq: number;
}

/** Live flushes are heard of a moment after they are stored; more are not stored in that moment. */
const KEPT_MAX = 4_096;
/** What comes live while stored records are read; beyond, it is read from the database as well. */
const COLLECTED_BYTES_MAX = 1024 * 1024;
/** What a record takes beside its message. */
const RECORD_BYTES = 256;

const keyOf = ({ robot_id, received_at, first_seq }: FlushKey): string => `${robot_id} ${received_at} ${first_seq}`;

export const flushKey = ({ robot_id, received_at, first_seq }: BatchKey): FlushKey => ({
  robot_id,
  received_at: received_at.toISOString(),
  first_seq,
});

/** What a flush takes in memory, roughly. */
export const bytesOfBatch = ({ records }: LiveBatch): number =>
  records.reduce((sum, { message }) => sum + message.length + RECORD_BYTES, 0);

/** Flushes that were read from the database or sent, so that none of them is sent again when it is heard of live or read. */
export class SentBatches {
  readonly #keys = new Set<string>();

  add(flush: FlushKey): void {
    this.#keys.add(keyOf(flush));
    if (this.#keys.size > KEPT_MAX) for (const oldest of this.#keys.keys()) return void this.#keys.delete(oldest);
  }

  has(flush: FlushKey): boolean {
    return this.#keys.has(keyOf(flush));
  }
}

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
