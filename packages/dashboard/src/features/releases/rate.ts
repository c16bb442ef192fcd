/** Seconds of the past that a rate is the mean of: a stutter does not show, a change soon does. */
const WINDOW_MS = 5_000;

interface Sample {
  at_ms: number;
  bytes: number;
}

/** How fast bytes go: samples of where they are, the latest last. Immutable. */
export type Samples = readonly Sample[];

/** With one more sample. Bytes that go back (some were lost) begin anew. */
export function addSample(samples: Samples, at_ms: number, bytes: number): Samples {
  const last = samples.at(-1);
  if (last !== undefined && bytes < last.bytes) return [{ at_ms, bytes }];
  const first_kept = samples.findIndex((sample) => at_ms - sample.at_ms <= WINDOW_MS);
  // One older than the window stays, so that there is always a distance to measure.
  return [...samples.slice(first_kept === -1 ? -1 : Math.max(0, first_kept - 1)), { at_ms, bytes }];
}

/** Bytes per second; undefined while there is too little to tell. */
export function rateOf(samples: Samples): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || last.at_ms - first.at_ms < 250) return undefined;
  return ((last.bytes - first.bytes) * 1_000) / (last.at_ms - first.at_ms);
}

/** Seconds until `total` is reached at this rate; undefined when nobody can say. */
export function secondsLeft(samples: Samples, total: number): number | undefined {
  const rate = rateOf(samples);
  if (rate === undefined || rate <= 0) return undefined;
  return Math.max(0, (total - (samples.at(-1)?.bytes ?? 0)) / rate);
}
