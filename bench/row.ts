import type { Sample } from "./measure.ts";
import type { Rig, ServerOptions } from "./rig.ts";

/** What a line of the table tells. */
export interface RowResult {
  /** Names a line below the first, which is about the row as a whole. */
  part?: string;
  /** Absent in lines that only tell what the limit takes. */
  ours?: Sample;
  limit?: Sample;
  unit: string;
  /** The figure that the goal is about: ours ÷ limit unless `figure` says otherwise. */
  ratio?: number;
  figure?: string;
  /** Absent in lines that tell where the time goes. */
  goal?: string;
  met?: boolean;
  /** CPU of the measured process per operation, where operations are counted. */
  ours_cpu_us?: Sample;
  limit_cpu_us?: Sample;
}

export interface Row {
  name: string;
  /** What is done, and what the limit beside it does. */
  about: string;
  server?: ServerOptions;
  /** One line, or several of which the first is the row's and the others its parts. */
  run(rig: Rig): Promise<RowResult | readonly RowResult[]>;
}
