/** What happened on this robot, for its own software. */
export interface LocalEvent {
  type: string;
  data: unknown;
}

export interface NumberedEvent extends LocalEvent {
  /** `<run>-<number>`: numbers begin anew with each run of the agent. */
  id: string;
}

/** Kept for readers that come back. */
export const EVENTS_KEPT_MAX = 256;

/** The latest events, numbered, and whoever listens. */
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

  /** Id of the latest event: where a reader stands that knows everything. */
  get last_id(): string {
    return `${this.#run}-${this.#number}`;
  }

  /** Everything after this id; undefined when some of it is gone: another run of the agent, or too long ago. */
  after(id: string): NumberedEvent[] | undefined {
    const match = /^([^-]+)-(\d{1,15})$/.exec(id);
    const number = Number(match?.[2]);
    if (match?.[1] !== this.#run || number > this.#number) return undefined;
    const missed = this.#number - number;
    return missed > this.#kept.length ? undefined : this.#kept.slice(this.#kept.length - missed);
  }

  /** Answers how to stop listening. */
  listen(listener: (event: NumberedEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get listeners(): number {
    return this.#listeners.size;
  }
}
