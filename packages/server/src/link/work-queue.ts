import { Hold, type ReadValve } from "./read-valve.ts";
import type { WorkBudget } from "./work-budget.ts";

/** Messages of one robot that may wait for the database before its socket is not read any further. */
export const WAITING_MAX = 32;
/** The same in bytes: one flush of the log is about 256 KiB. */
export const WAITING_BYTES_MAX = 1024 * 1024;

/**
 * Processes one robot's messages one after another, and stops reading from it while too many wait, of its own or of its
 * org: it keeps them on its disk. After one that failed none is processed: to acknowledge a later report is to
 * acknowledge those before it.
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

  /** `cost`: bytes that the message takes while it waits. */
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
