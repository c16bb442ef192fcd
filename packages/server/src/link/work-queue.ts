import { Hold, type ReadValve } from "./read-valve.ts";
import type { WorkBudget } from "./work-budget.ts";

/** Pending messages of one robot, above which its socket is not read. */
export const WAITING_MAX = 32;
/** The same limit in bytes: one log flush is about 256 KiB. */
export const WAITING_BYTES_MAX = 1024 * 1024;

/**
 * Processes one robot's messages in order, and pauses reading while too many are pending, of the robot or its org: the robot keeps them on
 * its disk. After a failed message no other is processed, because acknowledging a later report would acknowledge the failed one.
 */
export class WorkQueue {
  readonly #valve: ReadValve;
  readonly #budget: WorkBudget;
  readonly #org_id: string;
  #waiting = 0;
  #bytes = 0;
  #failed = false;
  #tail: Promise<void> = Promise.resolve();

  constructor(valve: ReadValve, budget: WorkBudget, org_id: string) {
    this.#valve = valve;
    this.#budget = budget;
    this.#org_id = org_id;
  }

  /** `cost`: bytes that the message takes while pending. */
  add(cost: number, work: () => Promise<void>, failed: (error: unknown) => void): void {
    this.#waiting += 1;
    this.#bytes += cost;
    if (this.#waiting >= WAITING_MAX || this.#bytes >= WAITING_BYTES_MAX) this.#valve.hold(Hold.queue);
    this.#budget.take(this.#org_id, this.#valve, cost);
    this.#tail = this.#tail.then(() => this.#perform(work, failed)).then(() => this.#done(cost));
  }

  async #perform(work: () => Promise<void>, failed: (error: unknown) => void): Promise<void> {
    if (this.#failed) return;
    try {
      await work();
    } catch (error) {
      this.#failed = true;
      failed(error);
    }
  }

  #done(cost: number): void {
    this.#waiting -= 1;
    this.#bytes -= cost;
    if (this.#waiting <= WAITING_MAX / 4 && this.#bytes <= WAITING_BYTES_MAX / 4) this.#valve.release(Hold.queue);
    this.#budget.giveBack(this.#org_id, cost);
  }
}
