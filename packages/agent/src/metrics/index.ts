import { join } from "node:path";
import type { Activity, Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { AgentConfig } from "../config.ts";
import type { RobotTime } from "../robot-time.ts";
import { ChunkSpool } from "./chunk-spool.ts";
import { SampleCollector } from "./sample-collector.ts";
import { SystemValues } from "./system-values.ts";

/** Opens the queue of chunks on disk; undefined if the robot's config disables metrics. */
export function openSamples(
  { robot, state_directory }: Pick<AgentConfig, "robot" | "state_directory">,
  clock: Clock,
  on_disk: (reason: string | undefined) => void,
): ChunkSpool | undefined {
  if (!robot.metrics.is_on) return undefined;
  return new ChunkSpool({ directory: join(state_directory, "metrics"), randomBytes: (count) => clock.randomBytes(count), on_disk });
}

interface MetricsOptions {
  config: Pick<AgentConfig, "robot" | "system_root">;
  clock: Clock;
  activity: Activity;
  time: Pick<RobotTime, "serverTime">;
  samples: ChunkSpool | undefined;
  /** Returns values of the agent itself. */
  own: () => Record<string, number>;
  /** Called when a further chunk waits. */
  added: () => void;
  log: Logger;
}

/** Starts to collect samples; returns undefined if the robot's config disables metrics. */
export function startMetrics({ config, clock, activity, time, samples, own, added, log }: MetricsOptions): SampleCollector | undefined {
  if (samples === undefined) return undefined;
  const system = new SystemValues({ system_root: config.system_root, clock });
  const collector = new SampleCollector({
    ...config.robot.metrics,
    read: async () => [...(await system.read()), ...Object.entries(own()).map(([name, value]) => ({ name, labels: {}, value }))],
    write: (chunk) => {
      samples.add(chunk);
      added();
    },
    clock,
    activity,
    server_time: () => time.serverTime(),
    log,
  });
  collector.start();
  return collector;
}
