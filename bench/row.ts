import type { Sample } from "./measure.ts";
import type { Rig, ServerOptions } from "./rig.ts";

/** Parts of the product, in the order in which the page tells of them. */
export const AREAS = {
  api: "API",
  links: "Robots' links",
  memory: "Memory of connected robots",
  logs: "Logs and health",
  streams: "Streams",
  deployments: "Deployments",
  growth: "Growth",
  dashboard: "Dashboard",
  programs: "Programs",
} as const;
export type Area = keyof typeof AREAS;

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
  /** Of what runs are compared by: the ratio, or what ours takes where nothing stands beside it. Absent: less is better. */
  more_is_better?: true;
  /** CPU of the measured process per operation, where operations are counted. */
  ours_cpu_us?: Sample;
  limit_cpu_us?: Sample;
}

export interface Row {
  name: string;
  area: Area;
  /** What is done, and what the limit beside it does. */
  about: string;
  server?: ServerOptions;
  /** Takes so long that only `--full` and `--only` measure it. */
  only_full?: true;
  /** One line, or several of which the first is the row's and the others its parts. */
  run(rig: Rig): Promise<RowResult | readonly RowResult[]>;
}
