import type { Series } from "@roamfleet/protocol/link";

/** A series with a sample each `step_ms`, from `from`. */
export const seriesFrom = (
  from: number,
  count: number,
  { step_ms = 10_000, ...more }: Partial<Series> & { step_ms?: number } = {},
): Series => ({
  name: "cpu_percent",
  labels: {},
  times: Array.from({ length: count }, (_, i) => from + i * step_ms),
  values: Array.from({ length: count }, (_, i) => (i % 7) + 0.25),
  ...more,
});
