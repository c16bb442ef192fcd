import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import type { RosAdapter, RosMessage } from "./adapter.ts";

/** Each kind of failure is logged at most once in it. */
const FAILURE_LOG_MS = 60_000;

interface Listener {
  /** Milliseconds between two messages at least; 0: every one. */
  interval_ms: number;
  /** On the monotonic clock. */
  next_at: number;
  on: (message: RosMessage) => void;
}

interface SharedSubscriptionOptions {
  topic: string;
  /** Which type, where topics of several types share the name. */
  type?: string | undefined;
  clock: Clock;
  log: Logger;
  /** Called when the last listener has left. */
  nobody: () => void;
}

/** One topic for all of its listeners: one subscription, at one adapter at a time. */
export class SharedSubscription {
  readonly #options: SharedSubscriptionOptions;
  readonly #listeners = new Set<Listener>();
  #adapter: RosAdapter | undefined;
  /** Ends the subscription at `#adapter`. */
  #end: (() => void) | undefined;
  #newest: RosMessage | undefined;
  /** Messages dropped since that was last logged. */
  #dropped = 0;
  #dropped_logged_at = -Infinity;
  #failure_logged_at = -Infinity;

  constructor(options: SharedSubscriptionOptions) {
    this.#options = options;
  }

  get topic(): string {
    return this.#options.topic;
  }

  get type(): string | undefined {
    return this.#options.type;
  }

  /** Where it is subscribed; undefined also after the adapter refused. */
  get adapter(): RosAdapter | undefined {
    return this.#adapter;
  }

  /** Answers how to leave. */
  add(rate: number | undefined, on: (message: RosMessage) => void): () => void {
    const listener: Listener = { interval_ms: rate === undefined ? 0 : 1_000 / rate, next_at: -Infinity, on };
    this.#listeners.add(listener);
    // What is published once, a map for instance, comes once: whoever is late gets what came last.
    const newest = this.#newest;
    if (newest !== undefined) queueMicrotask(() => this.#listeners.has(listener) && this.#give(listener, newest));
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.detach();
      this.#options.nobody();
    };
  }

  /** Moves the subscription to an adapter; does nothing if it is there already. */
  attach(adapter: RosAdapter): void {
    if (this.#adapter === adapter) return;
    this.detach();
    this.#adapter = adapter;
    let over = false;
    let unsubscribe: (() => void) | undefined;
    this.#end = () => {
      over = true;
      unsubscribe?.();
    };
    adapter
      .subscribe(this.topic, (message) => {
        if (!over) this.#handOn(message);
      })
      .then(
        (end) => {
          unsubscribe = end;
          if (over) end();
        },
        (error: unknown) => {
          if (!over) this.#refused(adapter, error);
        },
      );
  }

  /** Ends the subscription at its adapter: that is gone, or the last listener has left. */
  detach(): void {
    this.#newest = undefined;
    this.#adapter = undefined;
    this.#end?.();
    this.#end = undefined;
  }

  #refused(adapter: RosAdapter, error: unknown): void {
    this.detach();
    const { topic, clock, log } = this.#options;
    const now = clock.monotonic();
    if (now - this.#failure_logged_at < FAILURE_LOG_MS) return;
    this.#failure_logged_at = now;
    log.warn({ adapter: adapter.name, topic, reason: errorText(error) }, "a topic could not be subscribed");
  }

  #handOn(message: RosMessage): void {
    this.#newest = message;
    for (const listener of this.#listeners) this.#give(listener, message);
  }

  #give(listener: Listener, message: RosMessage): void {
    const now = this.#options.clock.monotonic();
    if (now < listener.next_at) return;
    // From when it was due, so that 10 a second out of 30 are 10; not from long ago, so that a pause earns no burst.
    const late_ms = now - listener.next_at;
    listener.next_at = (late_ms < listener.interval_ms ? listener.next_at : now) + listener.interval_ms;
    try {
      listener.on(message);
    } catch (error) {
      this.#drop(error, now);
    }
  }

  /** A message may be anything, whatever its type says: one that a listener cannot take is lost to that listener, and nothing else. */
  #drop(error: unknown, now: number): void {
    this.#dropped += 1;
    if (now - this.#dropped_logged_at < FAILURE_LOG_MS) return;
    const { topic, log } = this.#options;
    log.warn({ topic, messages: this.#dropped, reason: errorText(error) }, "messages of a topic could not be taken");
    this.#dropped = 0;
    this.#dropped_logged_at = now;
  }
}
