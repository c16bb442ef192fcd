import type { Clock } from "@robofleet/clock";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import type { RosAdapter, RosMessage } from "./adapter.ts";

/** Messages that a listener threw at are told of once in it. */
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
  clock: Clock;
  log: Logger;
  /** Called when the last listener has left. */
  nobody: () => void;
}

/** One topic for all who asked for it: one subscription at the adapter, whichever that is. */
export class SharedSubscription {
  readonly #options: SharedSubscriptionOptions;
  readonly #listeners = new Set<Listener>();
  /** Ends the subscription at the adapter of now. */
  #end: (() => void) | undefined;
  #newest: RosMessage | undefined;
  /** Messages dropped since that was last logged. */
  #dropped = 0;
  #dropped_logged_at = -Infinity;

  constructor(options: SharedSubscriptionOptions) {
    this.#options = options;
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

  /** Subscribes at an adapter that has come. */
  attach(adapter: RosAdapter): void {
    this.detach();
    const { topic, log } = this.#options;
    let over = false;
    let unsubscribe: (() => void) | undefined;
    this.#end = () => {
      over = true;
      unsubscribe?.();
    };
    adapter
      .subscribe(topic, (message) => {
        if (!over) this.#handOn(message);
      })
      .then(
        (end) => {
          unsubscribe = end;
          if (over) end();
        },
        (error: unknown) => log.warn({ adapter: adapter.name, topic, reason: errorText(error) }, "a topic could not be subscribed"),
      );
  }

  /** The adapter is gone, or nobody listens any more. */
  detach(): void {
    this.#newest = undefined;
    this.#end?.();
    this.#end = undefined;
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
