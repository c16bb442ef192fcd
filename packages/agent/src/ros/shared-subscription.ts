import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import type { RosAdapter, RosMessage } from "./adapter.ts";

/** Each kind of failure is logged at most once in this time. */
const FAILURE_LOG_MS = 60_000;

interface Listener {
  /** Minimum milliseconds between two messages; 0: every message. */
  interval_ms: number;
  /** On the monotonic clock. */
  next_at: number;
  on: (message: RosMessage) => void;
}

interface SharedSubscriptionOptions {
  topic: string;
  /** The type, if topics of several types share the name. */
  type?: string | undefined;
  clock: Clock;
  log: Logger;
  /** Called when the last listener has left. */
  unused: () => void;
}

/** One topic for all of its listeners: one subscription, at one adapter at a time. */
export class SharedSubscription {
  readonly #options: SharedSubscriptionOptions;
  readonly #listeners = new Set<Listener>();
  #adapter: RosAdapter | undefined;
  /** Ends the subscription at `#adapter`. */
  #end: (() => void) | undefined;
  #newest: RosMessage | undefined;
  /** Messages dropped since the last log entry. */
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

  /** The adapter of the subscription; undefined also after the adapter refused it. */
  get adapter(): RosAdapter | undefined {
    return this.#adapter;
  }

  /** Returns a function that removes the listener. */
  add(rate: number | undefined, on: (message: RosMessage) => void): () => void {
    const listener: Listener = { interval_ms: rate === undefined ? 0 : 1_000 / rate, next_at: -Infinity, on };
    this.#listeners.add(listener);
    // A latched message, for instance a map, is published once: a late listener gets the latest message.
    const newest = this.#newest;
    if (newest !== undefined) queueMicrotask(() => this.#listeners.has(listener) && this.#deliver(listener, newest));
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.detach();
      this.#options.unused();
    };
  }

  /** Moves the subscription to an adapter; does nothing if it is already there. */
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

  /** Ends the subscription: its adapter is gone, or the last listener has left. */
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
    for (const listener of this.#listeners) this.#deliver(listener, message);
  }

  #deliver(listener: Listener, message: RosMessage): void {
    const now = this.#options.clock.monotonic();
    if (now < listener.next_at) return;
    // Counted from the due time, so that 10 of 30 messages a second are exactly 10; after a long pause from now, so that there is no burst.
    const late_ms = now - listener.next_at;
    listener.next_at = (late_ms < listener.interval_ms ? listener.next_at : now) + listener.interval_ms;
    try {
      listener.on(message);
    } catch (error) {
      this.#drop(error, now);
    }
  }

  /** Counts a message that a listener failed to process. Its content may not match its type; only that listener loses it. */
  #drop(error: unknown, now: number): void {
    this.#dropped += 1;
    if (now - this.#dropped_logged_at < FAILURE_LOG_MS) return;
    const { topic, log } = this.#options;
    log.warn({ topic, messages: this.#dropped, reason: errorText(error) }, "listeners failed to process messages of a topic");
    this.#dropped = 0;
    this.#dropped_logged_at = now;
  }
}
