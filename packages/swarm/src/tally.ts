import type { ReportBody, ReportedStatus } from "@roamfleet/protocol/link";

/** Counts of the robots' states, updated with each report. */
export class Tally {
  enrolled = 0;
  /** Number of reports from robots. */
  reports = 0;
  downloads = 0;
  downloaded_bytes = 0;
  readonly ended: Record<"applied" | "rolled_back" | "failed" | "cancelled", number> = {
    applied: 0,
    rolled_back: 0,
    failed: 0,
    cancelled: 0,
  };
  /** Number of targets in progress, by their last reported status. */
  readonly under_way = new Map<ReportedStatus, number>();
  readonly #phases = new Map<string, ReportedStatus>();
  readonly #runs = new Map<string, string>();

  /** Records a report of robot `number`. */
  reported(number: number, body: ReportBody): void {
    this.reports += 1;
    if (body.kind !== "target") return;
    const { status, target_id } = body;
    const key = `${number} ${target_id}`;
    const before = this.#phases.get(key);
    if (isEnding(status)) {
      if (before !== undefined) this.#move(before, undefined);
      // Count a result only once: a robot reports its latest result again after each connect.
      if (this.#phases.delete(key)) this.ended[status] += 1;
      return;
    }
    this.#move(before, status);
    this.#phases.set(key, status);
  }

  /** Records the release that an app of robot `number` runs; undefined: none. */
  runs(number: number, app: string, tag: string | undefined): void {
    if (tag === undefined) this.#runs.delete(`${number} ${app}`);
    else this.#runs.set(`${number} ${app}`, tag);
  }

  /** Returns the number of apps that run each release, most common release first. */
  running(): [tag: string, count: number][] {
    const counts = new Map<string, number>();
    for (const tag of this.#runs.values()) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]);
  }

  #move(from: ReportedStatus | undefined, to: ReportedStatus | undefined): void {
    if (from !== undefined) this.under_way.set(from, (this.under_way.get(from) ?? 1) - 1);
    if (to !== undefined) this.under_way.set(to, (this.under_way.get(to) ?? 0) + 1);
  }
}

const isEnding = (status: ReportedStatus): status is keyof Tally["ended"] =>
  status === "applied" || status === "rolled_back" || status === "failed" || status === "cancelled";
