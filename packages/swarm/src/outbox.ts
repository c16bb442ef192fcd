import type { Report, ReportBody } from "@robofleet/protocol/link";

/** Reports that the server has not acknowledged, oldest first: the agent keeps them on disk, a simulated robot in memory. */
export class MemoryOutbox {
  readonly outbox_id: string;
  #reports: Report[] = [];
  #last_seq = 0;

  constructor(outbox_id: string) {
    this.outbox_id = outbox_id;
  }

  get waiting(): readonly Report[] {
    return this.#reports;
  }

  add(body: ReportBody, at: string): Report {
    const report: Report = { type: "report", seq: (this.#last_seq += 1), at, body };
    this.#reports.push(report);
    return report;
  }

  acknowledge(seq: number): void {
    if ((this.#reports[0]?.seq ?? Infinity) <= seq) this.#reports = this.#reports.filter((report) => report.seq > seq);
  }
}
