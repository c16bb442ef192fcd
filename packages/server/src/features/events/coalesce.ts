import type { Clock } from "@roamfleet/clock";
import type { Change, ChangeKind, ChangeSummary } from "@roamfleet/protocol/routes";
import { type Bucket, tryTake } from "../../kernel/rate-limit.ts";

/** Changes of one kind that a reader gets one by one before they are summarized. */
export const BURST_CHANGES_MAX = 20;
/** One further change each second. */
const RATE = { per_minute: 60, burst: BURST_CHANGES_MAX };
/** Shortest time between two messages: four a second feel live. */
const WINDOW_MS = 250;
/**
 * Shortest time between a summary and the next message. A summary makes a page reload all that it shows; the page of a rollout feels live
 * at this rate.
 */
export const SUMMARY_WINDOW_MS = 750;

/**
 * Coalesces the changes for one reader. Keeps only the newest change of each object and aspect. If the changes of a kind exceed the token
 * bucket of that kind, one summary replaces them. So the bytes that a reader gets depend on how long objects keep changing, not on how many
 * objects there are.
 */
export class Coalescer {
  readonly clock: Pick<Clock, "monotonic" | "setTimer">;
  readonly #buckets = new Map<ChangeKind, Bucket>();
  #next_ms = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonic" | "setTimer">) {
    this.clock = clock;
  }

  /** Returns the milliseconds until the next message may be sent. */
  waitMs(): number {
    return Math.max(0, this.#next_ms - this.clock.monotonic());
  }

  /** Returns the next message: all changes since the last one, grouped by kind, in order. */
  take(changes: readonly Change[]): (Change | ChangeSummary)[] {
    if (changes.length === 0) return [];
    const now_ms = this.clock.monotonic();
    let window_ms = WINDOW_MS;
    const taken = [...Map.groupBy(newest(changes), ({ kind }) => kind)].flatMap(([kind, own]): readonly (Change | ChangeSummary)[] => {
      if (this.#spend(kind, own.length, now_ms)) return own;
      window_ms = SUMMARY_WINDOW_MS;
      return own.length === 1 ? own : [summarize(kind, own)];
    });
    this.#next_ms = now_ms + window_ms;
    return taken;
  }

  #spend(kind: ChangeKind, count: number, now_ms: number): boolean {
    const bucket = this.#buckets.get(kind) ?? { tokens: RATE.burst, at: now_ms };
    this.#buckets.set(kind, bucket);
    return tryTake(bucket, RATE, count, now_ms);
  }
}

/**
 * Returns the newest change of each object and aspect, in order. Keeps all moves from different places, because the counts of each place
 * change.
 */
function newest(changes: readonly Change[]): Iterable<Change> {
  const by_key = new Map<string, Change>();
  for (const one of changes) {
    const key = `${one.kind} ${one.id} ${one.change} ${one.from_fleet_id} ${one.from_site_id}`;
    by_key.delete(key);
    by_key.set(key, one);
  }
  return by_key.values();
}

/** Returns the number of changes and the fields that all of them share. */
function summarize(kind: ChangeKind, changes: readonly Change[]): ChangeSummary {
  const shared = Object.entries(changes[0] ?? {}).filter(
    ([field, value]) => typeof value === "string" && changes.every((one) => one[field as keyof Change] === value),
  );
  return { ...Object.fromEntries(shared), kind, count: changes.length };
}
