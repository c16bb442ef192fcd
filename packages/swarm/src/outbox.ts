import type { Report, ReportBody } from "@roamfleet/protocol/link";

/** Unacknowledged reports, oldest first: the agent stores them on disk, a simulated robot in memory. */
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

  /** Reports with a sequence number above `seq`, oldest first. */
  after(seq: number, count_max: number): Report[] {
    const from = this.#reports.findIndex((report) => report.seq > seq);
    return from === -1 ? [] : this.#reports.slice(from, from + count_max);
  }

  acknowledge(seq: number): void {
    if ((this.#reports[0]?.seq ?? Infinity) <= seq) this.#reports = this.#reports.filter((report) => report.seq > seq);
  }

  /**
   * Applies the server's acknowledged number on connect. If it exceeds all numbers of this outbox, it belongs to another one: returns
   * false, and the outbox gets a new name.
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
