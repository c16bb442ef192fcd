import { encodeRecord } from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";
import type { LogLevel } from "@roamfleet/protocol/link";

/** Maximum unsent records; the oldest are dropped first. */
const RECORDS_MAX = 50;

/** The log of a simulated robot, in memory, for the agent's shipper; an agent stores it on disk. */
export class MemoryLogSpool {
  readonly #clock: Clock;
  #lines: { seq: number; text: string }[] = [];
  #last = 0;
  #sent = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  append(level: LogLevel, source: string, message: string): void {
    const seq = (this.#last += 1);
    this.#lines.push({ seq, text: encodeRecord(seq, { level, source, message }, () => this.#clock.now()) });
    if (this.#lines.length > RECORDS_MAX) this.#lines.shift();
  }

  /** Marks the records up to here as stored by the server, and later ones as unsent. */
  rewind(acked: number): void {
    this.acknowledge(acked);
    this.#sent = acked;
  }

  acknowledge(seq: number): void {
    this.#lines = this.#lines.filter((line) => line.seq > seq);
  }

  next({ records }: { records: number }): { lines: string[]; last_seq: number; bytes: number } | undefined {
    const batch = this.#lines.filter(({ seq }) => seq > this.#sent).slice(0, records);
    const last = batch.at(-1);
    if (last === undefined) return undefined;
    this.#sent = last.seq;
    const lines = batch.map(({ text }) => text);
    return { lines, last_seq: last.seq, bytes: lines.reduce((sum, text) => sum + text.length, 0) };
  }
}
