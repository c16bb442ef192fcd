import type { Sample } from "./measure.ts";
import type { Rig, ServerOptions } from "./rig.ts";

/** Areas of the product, in the order of the page. */
export const AREAS = {
  api: "API",
  links: "Robots' links",
  memory: "Memory of connected robots",
  logs: "Logs and health",
  streams: "Streams",
  deployments: "Deployments",
  growth: "Growth",
  dashboard: "Dashboard",
  agent: "The agent's data, flash and memory",
  programs: "Programs",
} as const;
export type Area = keyof typeof AREAS;

/** A line of the table. */
export interface RowResult {
  /** Name of the line. The row's first line has none, because it is the total. */
  part?: string;
  /** Absent in lines that only measure the limit. */
  ours?: Sample;
  limit?: Sample;
  unit: string;
  /** Ours ÷ limit. The goal refers to this figure, unless `figure` is set. */
  ratio?: number;
  figure?: string;
  /** Absent in lines of a breakdown. */
  goal?: string;
  met?: boolean;
  /** Whether a higher figure is better. Absent: a lower figure is better. */
  more_is_better?: true;
  /** CPU of the measured process per operation, if operations are counted. */
  ours_cpu_us?: Sample;
  limit_cpu_us?: Sample;
}

export interface Row {
  name: string;
  area: Area;
  /** What is measured, and what the limit does. */
  about: string;
  server?: ServerOptions;
  /** Slow: measured only with `--full` or `--only`. */
  only_full?: true;
  /** Mostly waits, and measures no time. Such rows are measured at the same time as the ones beside them in the table. */
  waits?: true;
  /** Measures the row: one line, or several, of which the first is the row's total and the others its parts. */
  run: (rig: Rig) => Promise<RowResult | readonly RowResult[]>;
}
