import type { Sample } from "./measure.ts";
import type { Rig } from "./rig.ts";

/** What a row of the table tells. */
export interface RowResult {
  ours: Sample;
  limit: Sample;
  unit: string;
  /** The figure that the goal is about: ours ÷ limit unless `figure` says otherwise. */
  ratio: number;
  figure?: string;
  goal: string;
  met: boolean;
  /** CPU of the measured process per operation, where operations are counted. */
  ours_cpu_us?: Sample;
  limit_cpu_us?: Sample;
}

export interface Row {
  name: string;
  /** What is done, and what the limit beside it does. */
  about: string;
  run(rig: Rig): Promise<RowResult>;
}
