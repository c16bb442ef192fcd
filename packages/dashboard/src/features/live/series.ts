import { numberAt } from "./field-path.ts";

/** Time window of the plot. */
export const WINDOW_S = 60;
/** Maximum points, independent of the rate. */
export const POINTS_MAX = 3_000;

/** A bounded time series of a topic's numeric fields. Times are in seconds. */
export function createSeries() {
  let points: { at: number; message: unknown }[] = [];
  return {
    /** Adds a message received by the robot at `at` (RFC 3339). Skips a message that is older than the last one, after a clock change. */
    add(at: string, message: unknown): void {
      const seconds = Date.parse(at) / 1_000;
      if (!Number.isFinite(seconds)) return;
      const last = points.at(-1)?.at;
      if (last !== undefined && seconds < last) {
        if (last - seconds > WINDOW_S) points = [];
        else return;
      }
      points.push({ at: seconds, message });
      const from = points.findIndex((point) => point.at > seconds - WINDOW_S);
      points = points.slice(Math.max(from, points.length - POINTS_MAX));
    },
    /** Returns the data for uPlot: times, then the values of each field; null for missing values. */
    read: (fields: readonly string[]): [number[], ...(number | null)[][]] => [
      points.map(({ at }) => at),
      ...fields.map((field) => points.map(({ message }) => numberAt(message, field) ?? null)),
    ],
    clear(): void {
      points = [];
    },
  };
}
