/** An event on this robot, for its own software. */
export interface LocalEvent {
  type: string;
  data: unknown;
}

export interface NumberedEvent extends LocalEvent {
  /** `<run>-<number>`: numbers restart with each run of the agent. */
  id: string;
}

/** Events kept for readers that reconnect. */
export const EVENTS_KEPT_MAX = 256;

/** The latest events, numbered, and their listeners. */
export class EventRing {
  readonly #run: string;
  #number = 0;
  readonly #kept: NumberedEvent[] = [];
  readonly #listeners = new Set<(event: NumberedEvent) => void>();

  /** `run` names this run of the agent, without a dash. */
  constructor(run: string) {
    this.#run = run;
  }

  add(type: string, data: unknown): void {
    this.#number += 1;
    const event: NumberedEvent = { id: `${this.#run}-${this.#number}`, type, data };
    this.#kept.push(event);
    if (this.#kept.length > EVENTS_KEPT_MAX) this.#kept.shift();
    for (const listener of this.#listeners) listener(event);
  }

  /** Id of the latest event: the cursor of a reader that has received everything. */
  get last_id(): string {
    return `${this.#run}-${this.#number}`;
  }

  /** Returns all events after this id; undefined if some are lost: from another run of the agent, or evicted. */
  after(id: string): NumberedEvent[] | undefined {
    const match = /^([^-]+)-(\d{1,15})$/.exec(id);
    const number = Number(match?.[2]);
    if (match?.[1] !== this.#run || number > this.#number) return undefined;
    const missed = this.#number - number;
    return missed > this.#kept.length ? undefined : this.#kept.slice(this.#kept.length - missed);
  }

  /** Adds a listener. Returns a function that removes it. */
  listen(listener: (event: NumberedEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get listeners(): number {
    return this.#listeners.size;
  }
}
