import { hash } from "node:crypto";
import { type ConfigFiles, encodeRecord } from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";
import type { LogLevel, Report, ReportBody } from "@roamfleet/protocol/link";

/** Maximum unacknowledged records; the oldest are dropped first. */
const RECORDS_MAX = 50;

/** The log of a simulated robot, in memory. Real agents store it on disk. The agent's log shipper reads from it. */
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

  /** Drops the records up to number `acked`, which the server has stored, and marks all later ones as unsent. */
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

/** Creates an in-memory store for config files. It stores only their digests, because no simulated program reads the files. */
export function memoryConfigFiles(): ConfigFiles {
  const digests = new Map<string, string>();
  return {
    digest: (namespace) => digests.get(namespace),
    write: (namespace, bytes) => void digests.set(namespace, hash("sha256", bytes)),
  };
}

/** The reports that the server has not acknowledged, oldest first. Real agents store them on disk. */
export class MemoryOutbox {
  outbox_id: string;
  #reports: Report[] = [];
  #last_seq = 0;

  constructor(outbox_id: string) {
    this.outbox_id = outbox_id;
  }

  get waiting(): readonly Report[] {
    return this.#reports;
  }

  get size(): number {
    return this.#reports.length;
  }

  add(body: ReportBody, at: string): Report {
    const report: Report = { type: "report", seq: (this.#last_seq += 1), at, body };
    this.#reports.push(report);
    return report;
  }

  /** Returns at most `count_max` reports with a sequence number above `seq`, oldest first. */
  after(seq: number, count_max: number): Report[] {
    const from = this.#reports.findIndex((report) => report.seq > seq);
    return from === -1 ? [] : this.#reports.slice(from, from + count_max);
  }

  acknowledge(seq: number): void {
    if ((this.#reports[0]?.seq ?? Infinity) <= seq) this.#reports = this.#reports.filter((report) => report.seq > seq);
  }

  /**
   * Applies the last sequence number that the server acknowledged. Call it on connect. If this outbox has never used the number, the server
   * refers to an earlier outbox with the same id: then this outbox gets a new id, and the function returns false.
   */
  reconcile(acked_seq: number): boolean {
    if (acked_seq <= this.#last_seq) {
      this.acknowledge(acked_seq);
      return true;
    }
    this.outbox_id = `${this.outbox_id}+`;
    return false;
  }
}
