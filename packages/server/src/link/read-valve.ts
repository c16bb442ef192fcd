/** Reasons to pause reading of a socket. */
export const Hold = { queue: 1, budget: 2, pace: 4, log_rate: 8 } as const;
export type Hold = (typeof Hold)[keyof typeof Hold];

interface Pausable {
  pause(): void;
  resume(): void;
}

/** Pauses a socket while at least one reason applies, and resumes it when the last one is released. */
export class ReadValve {
  readonly #socket: Pausable;
  #held = 0;

  constructor(socket: Pausable) {
    this.#socket = socket;
  }

  get closed(): boolean {
    return this.#held !== 0;
  }

  holds(reason: Hold): boolean {
    return (this.#held & reason) !== 0;
  }

  hold(reason: Hold): void {
    if (this.#held === 0) this.#socket.pause();
    this.#held |= reason;
  }

  release(reason: Hold): void {
    const before = this.#held;
    this.#held &= ~reason;
    if (before !== 0 && this.#held === 0) this.#socket.resume();
  }
}
