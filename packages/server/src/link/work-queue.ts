/** Messages of one robot that may wait for the database before its socket is not read any further. */
const WAITING_MAX = 32;

interface Pausable {
  pause(): void;
  resume(): void;
}

/**
 * Deals with one robot's messages one after another, and stops reading from it while too many wait: the robot keeps them
 * on its disk. After one that failed none is dealt with: to acknowledge a later report is to acknowledge those before it.
 */
export class WorkQueue {
  readonly #socket: Pausable;
  #waiting = 0;
  #paused = false;
  #failed = false;
  #tail: Promise<void> = Promise.resolve();

  constructor(socket: Pausable) {
    this.#socket = socket;
  }

  add(work: () => Promise<void>, failed: (error: unknown) => void): void {
    this.#waiting += 1;
    if (this.#waiting >= WAITING_MAX && !this.#paused) {
      this.#paused = true;
      this.#socket.pause();
    }
    this.#tail = this.#tail.then(() => this.#perform(work, failed)).then(() => this.#done());
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

  #done(): void {
    this.#waiting -= 1;
    if (this.#paused && this.#waiting <= WAITING_MAX / 4) {
      this.#paused = false;
      this.#socket.resume();
    }
  }
}
