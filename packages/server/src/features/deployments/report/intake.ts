import type { Report } from "@roamfleet/protocol/link";
import type { Plane } from "../../../context.ts";
import { retryBisected } from "../../../kernel/isolate-failures.ts";
import type { Session } from "../../../link/index.ts";
import { type RobotReport, robotReport, takeReports } from "./report.ts";
import type { Engine } from "../transition.ts";

/** Maximum reports per transaction. It is low, so that other transactions wait only briefly for the transaction's locks. */
const BATCH_REPORTS_MAX = 500;
const BATCH_BYTES_MAX = 512 * 1024;
/**
 * Maximum lanes (queues of reports) per transaction. Most lanes contain the reports of one deployment, whose row the transaction locks.
 * Each such lane takes a few statements.
 */
const BATCH_LANES_MAX = 8;
/** Maximum concurrent transactions per org, so that database connections remain for other orgs. */
const BATCHES_AT_ONCE = 3;
/** Bytes counted for each report in addition to its texts. */
const REPORT_BYTES = 100;

interface Waiting {
  report: RobotReport;
  bytes: number;
  resolve: () => void;
  reject: (error: unknown) => void;
}

interface OrgQueue {
  /** Queued reports by lane, whose key `laneOf` returns. The first lane has waited longest. */
  lanes: Map<string, Waiting[]>;
  busy: Set<string>;
  batches: number;
}

/**
 * Stores robots' reports. A single report is written immediately; reports that arrive during a write are written in one batch. Reports wait
 * only for reports of the same deployment. The queue is bounded, because each link delivers its next report only after the previous one is
 * stored.
 */
export class ReportIntake {
  readonly #plane: Engine & Pick<Plane, "db" | "db_errors">;
  readonly #orgs = new Map<string, OrgQueue>();
  #settled: (() => void)[] = [];

  constructor(plane: Engine & Pick<Plane, "db" | "db_errors">) {
    this.#plane = plane;
  }

  /** Resolves when the report is durable and acknowledged; rejects if this report cannot be stored. */
  async take(session: Session, report: Report): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#add(session.org_id, { report: robotReport(session, report), bytes: bytesOf(report), resolve, reject });
    await promise;
    session.send({ type: "ack", seq: report.seq });
  }

  /** Resolves when no report is waiting. */
  async settled(): Promise<void> {
    if (this.#orgs.size > 0) await new Promise<void>((resolve) => this.#settled.push(resolve));
  }

  #add(org_id: string, waiting: Waiting): void {
    const org = this.#orgs.get(org_id) ?? { lanes: new Map(), busy: new Set(), batches: 0 };
    this.#orgs.set(org_id, org);
    const lane = laneOf(waiting.report);
    const queue = org.lanes.get(lane);
    if (queue === undefined) org.lanes.set(lane, [waiting]);
    else queue.push(waiting);
    this.#begin(org_id, org);
  }

  #begin(org_id: string, org: OrgQueue): void {
    while (org.batches < BATCHES_AT_ONCE) {
      const { batch, lanes } = nextBatch(org);
      if (batch.length === 0) break;
      org.batches += 1;
      for (const lane of lanes) org.busy.add(lane);
      void this.#perform(org_id, batch).then(() => {
        org.batches -= 1;
        for (const lane of lanes) org.busy.delete(lane);
        this.#begin(org_id, org);
      });
    }
    if (org.batches > 0) return;
    this.#orgs.delete(org_id);
    if (this.#orgs.size === 0) for (const resolve of this.#settled.splice(0)) resolve();
  }

  /** Stores a batch. A failing batch is bisected until the failing report is found. Never rejects. */
  async #perform(org_id: string, batch: readonly Waiting[]): Promise<void> {
    await retryBisected(batch, (some) => this.#take(org_id, some), {
      affectsAll: (error) => this.#plane.db_errors.isConnectionLost(error),
      failed: (some, error) => some.forEach(({ reject }) => reject(error)),
    });
  }

  async #take(org_id: string, batch: readonly Waiting[]): Promise<void> {
    const { db, metrics } = this.#plane;
    await takeReports(
      db.forOrg(org_id),
      this.#plane,
      org_id,
      batch.map(({ report }) => report),
    );
    metrics.reports_taken.inc(batch.length);
    metrics.report_batches.inc();
    for (const { resolve } of batch) resolve();
  }
}

/**
 * Returns the lane (queue) of a report. A lane has at most one running transaction. Reports about the same deployment share a lane, because
 * the transaction locks the deployment's row first. All other reports share two lanes: one for config files, one for the rest.
 */
function laneOf({ body }: RobotReport): string {
  if (body.kind === "target") return body.deployment_id;
  return body.kind === "config" ? "of configs" : "of robots";
}

const bytesOf = ({ body }: Report): number =>
  Object.values(body).reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : 0), REPORT_BYTES);

/** Returns the next batch: reports of lanes without a running batch, at most one per robot, in order of arrival. */
function nextBatch(org: OrgQueue): { batch: Waiting[]; lanes: string[] } {
  const [batch, lanes, robots]: [Waiting[], string[], Set<string>] = [[], [], new Set()];
  let bytes = 0;
  const left_over: [lane: string, queue: Waiting[]][] = [];
  for (const [lane, queue] of org.lanes) {
    if (lanes.length === BATCH_LANES_MAX || batch.length === BATCH_REPORTS_MAX || bytes >= BATCH_BYTES_MAX) break;
    if (org.busy.has(lane)) continue;
    const left: Waiting[] = [];
    for (const waiting of queue) {
      const { robot_id } = waiting.report;
      if (batch.length === BATCH_REPORTS_MAX || bytes >= BATCH_BYTES_MAX || robots.has(robot_id)) left.push(waiting);
      else {
        batch.push(waiting);
        robots.add(robot_id);
        bytes += waiting.bytes;
      }
    }
    lanes.push(lane);
    left_over.push([lane, left]);
  }
  for (const [lane, left] of left_over) {
    // Move the remaining reports of this lane behind the lanes that already wait.
    org.lanes.delete(lane);
    if (left.length > 0) org.lanes.set(lane, left);
  }
  return { batch, lanes };
}
