import { type Bucket, type Clock, tryTake } from "@roamfleet/clock";
import type { Change, ChangeKind, ChangeSummary } from "@roamfleet/protocol/routes";

/** Number of changes of one kind that a reader gets individually in a burst. Further changes are summarized. */
export const BURST_CHANGES_MAX = 20;
/** The token bucket of each kind of change: after a burst, one change per second. */
const RATE = { per_minute: 60, burst: BURST_CHANGES_MAX };
/** Minimum time between two messages: four messages per second look immediate to a user. */
const WINDOW_MS = 250;
/**
 * Minimum time between a summary and the next message. It is longer because a summary makes a page reload all that it shows. The page of a
 * rollout still looks live at this rate.
 */
export const SUMMARY_WINDOW_MS = 450;

/**
 * Coalesces the changes for one reader. Keeps only the newest change of each object and type. If the changes of a kind exceed the token
 * bucket of that kind, one summary replaces them. So the number of bytes sent depends on how long objects keep changing, not on how many
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
 * Returns the newest change of each object and type, in order. Keeps moves from different sites or fleets separately, because the robot
 * counts of each of these change.
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
