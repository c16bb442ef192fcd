/** The rate is averaged over this time. It is long enough to hide short stalls and short enough to show changes soon. */
const WINDOW_MS = 5_000;

interface Sample {
  at_ms: number;
  bytes: number;
}

/** Samples of the upload offset, oldest first. Immutable. */
export type Samples = readonly Sample[];

/** Adds a sample. A decreasing offset (lost data) starts a new measurement. */
export function addSample(samples: Samples, at_ms: number, bytes: number): Samples {
  const last = samples.at(-1);
  if (last !== undefined && bytes < last.bytes) return [{ at_ms, bytes }];
  const first_kept = samples.findIndex((sample) => at_ms - sample.at_ms <= WINDOW_MS);
  // Keep one sample older than the window, so that there are always two to compare.
  return [...samples.slice(first_kept === -1 ? -1 : Math.max(0, first_kept - 1)), { at_ms, bytes }];
}

/** Returns bytes per second; undefined with too few samples. */
export function rateOf(samples: Samples): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || last.at_ms - first.at_ms < 250) return undefined;
  return ((last.bytes - first.bytes) * 1_000) / (last.at_ms - first.at_ms);
}

/** Returns the seconds until `total` is reached at this rate; undefined if unknown. */
export function secondsLeft(samples: Samples, total: number): number | undefined {
  const rate = rateOf(samples);
  if (rate === undefined || rate <= 0) return undefined;
  return Math.max(0, (total - (samples.at(-1)?.bytes ?? 0)) / rate);
}
