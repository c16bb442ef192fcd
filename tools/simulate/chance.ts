import { seededRandom } from "@roamfleet/clock";

/** The random choices of a schedule. The same seed makes the same schedule. */
export class Chance {
  readonly next: () => number;

  constructor(seed: number) {
    this.next = seededRandom(seed);
  }

  /** Returns an integer from 0 up to, not including, `limit`. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  happens(probability: number): boolean {
    return this.next() < probability;
  }

  of<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error("there is nothing to choose from");
    return items[this.below(items.length)] as T;
  }

  /** Returns one item; its probability is proportional to its weight. */
  weighted<T>(items: readonly (readonly [weight: number, item: T])[]): T {
    let left = this.next() * items.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, item] of items) {
      left -= weight;
      if (left < 0) return item;
    }
    return (items.at(-1) as readonly [number, T])[1];
  }
}
