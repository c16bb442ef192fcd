import { numberAt } from "./field-path.ts";

/** What is drawn is of this time. */
export const WINDOW_S = 60;
/** Points that are kept at most, whatever the rate. */
export const POINTS_MAX = 3_000;

/** Numbers of a topic's messages over time, bounded: times in seconds, and a row of numbers for each field. */
export function createSeries() {
  let points: { at: number; message: unknown }[] = [];
  return {
    /** A message that the robot had at `at` (RFC 3339). One that is older than the last is left out: its clock was set. */
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
    /** As uPlot takes it: times, then the numbers of each field; null where a message has none. */
    read: (fields: readonly string[]): [number[], ...(number | null)[][]] => [
      points.map(({ at }) => at),
      ...fields.map((field) => points.map(({ message }) => numberAt(message, field) ?? null)),
    ],
    clear(): void {
      points = [];
    },
  };
}
