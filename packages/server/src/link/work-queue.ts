import type { Reader, WorkBudget } from "./work-budget.ts";

/** Messages of one robot that may wait for the database before its socket is not read any further. */
const WAITING_MAX = 32;

interface Pausable {
  pause(): void;
  resume(): void;
}

/**
 * Deals with one robot's messages one after another, and stops reading from it while too many wait, of its own or of all
 * robots: it keeps them on its disk. After one that failed none is dealt with: to acknowledge a later report is to
 * acknowledge those before it.
 */
export class WorkQueue implements Reader {
  readonly #socket: Pausable;
  readonly #budget: WorkBudget;
  #waiting = 0;
  #is_full = false;
  #is_held = false;
  #failed = false;
  #tail: Promise<void> = Promise.resolve();

  constructor(socket: Pausable, budget: WorkBudget) {
    this.#socket = socket;
    this.#budget = budget;
  }

  /** Whether the robot is not read at the moment: what it sends, a heartbeat too, is not heard. */
  get paused(): boolean {
    return this.#is_full || this.#is_held;
  }

  /** `bytes`: what the message takes while it waits. */
  add(bytes: number, work: () => Promise<void>, failed: (error: unknown) => void): void {
    this.#waiting += 1;
    if (this.#waiting >= WAITING_MAX) this.#change(() => (this.#is_full = true));
    this.#budget.take(this, bytes);
    this.#tail = this.#tail.then(() => this.#perform(work, failed)).then(() => this.#done(bytes));
  }

  hold(): void {
    this.#change(() => (this.#is_held = true));
  }

  goOn(): void {
    this.#change(() => (this.#is_held = false));
  }

  #change(make: () => void): void {
    const before = this.paused;
    make();
    if (this.paused === before) return;
    if (before) this.#socket.resume();
    else this.#socket.pause();
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

  #done(bytes: number): void {
    this.#waiting -= 1;
    if (this.#waiting <= WAITING_MAX / 4) this.#change(() => (this.#is_full = false));
    this.#budget.giveBack(bytes);
  }
}
