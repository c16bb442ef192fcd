import type { Series } from "@roamfleet/protocol/link";

/** Significant digits of an average. Sums of many samples have rounding errors in the others. */
const DIGITS = 10;
export const rounded = (value: number): number => Number(value.toPrecision(DIGITS));

/** The average, lowest and highest value of each interval; null if it has no samples. */
export interface IntervalValues {
  mean: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
}

/** Samples of one series, reduced to equal intervals from `from` to before `to`, in milliseconds since 1970. */
export class Intervals {
  readonly #from: number;
  readonly #to: number;
  readonly #step: number;
  readonly counts: Float64Array;
  readonly sums: Float64Array;
  readonly min: Float64Array;
  readonly max: Float64Array;
  has_values = false;

  constructor(from: number, to: number, points: number) {
    [this.#from, this.#to, this.#step] = [from, to, (to - from) / points];
    this.counts = new Float64Array(points);
    this.sums = new Float64Array(points);
    this.min = new Float64Array(points).fill(Infinity);
    this.max = new Float64Array(points).fill(-Infinity);
  }

  /** Adds samples. Those that are not finite or outside of the period are left out. */
  add({ times, values }: Pick<Series, "times" | "values">): void {
    for (const [i, time] of times.entries()) {
      const value = values[i];
      if (value !== undefined && Number.isFinite(value)) this.addReduced(time, 1, value, value, value);
    }
  }

  /** Adds `count` samples that were reduced before. `time` is the start of their interval. */
  addReduced(time: number, count: number, sum: number, min: number, max: number): void {
    if (time < this.#from || time >= this.#to) return;
    const at = Math.min(this.counts.length - 1, Math.floor((time - this.#from) / this.#step));
    this.has_values = true;
    this.counts[at] = (this.counts[at] ?? 0) + count;
    this.sums[at] = (this.sums[at] ?? 0) + sum;
    this.min[at] = Math.min(this.min[at] ?? Infinity, min);
    this.max[at] = Math.max(this.max[at] ?? -Infinity, max);
  }

  values(): IntervalValues {
    return {
      mean: this.filled((i) => rounded(this.mean(i))),
      min: this.filled((i) => this.min[i] ?? 0),
      max: this.filled((i) => this.max[i] ?? 0),
    };
  }

  /** Returns the average of an interval that has samples. */
  mean(at: number): number {
    return (this.sums[at] ?? 0) / (this.counts[at] ?? 0);
  }

  /** Returns a value for each interval; null if it has no samples. */
  filled(valueOf: (at: number) => number): (number | null)[] {
    return Array.from(this.counts, (count, i) => (count === 0 ? null : valueOf(i)));
  }
}
