import { join } from "node:path";
import type { Activity, Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { AgentConfig } from "../config.ts";
import type { ScrapeTarget } from "../contract.ts";
import type { RobotTime } from "../robot-time.ts";
import type { RosBridge } from "../ros/bridge.ts";
import { ChunkSpool } from "./chunk-spool.ts";
import { PushedSamples } from "./pushed-samples.ts";
import { RosValues } from "./ros-values.ts";
import { SampleCollector } from "./sample-collector.ts";
import { SampleSource } from "./sample-source.ts";
import { SystemValues } from "./system-values.ts";
import { WorkloadMetrics } from "./workload-metrics.ts";

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
  /** Returns where the running apps serve metrics. */
  apps: () => readonly ScrapeTarget[];
  ros: RosBridge;
  /** Called when a further chunk waits. */
  added: () => void;
  log: Logger;
}

export interface Metrics {
  /** Takes samples that programs of the robot send to the local socket. */
  readonly pushed: PushedSamples;
  /** Flushes what was collected, and stops. */
  stop(): Promise<void>;
}

/** Starts to collect samples; returns undefined if the robot's config disables metrics. */
export function startMetrics(options: MetricsOptions): Metrics | undefined {
  const { config, clock, activity, time, samples, own, added, log } = options;
  if (samples === undefined) return undefined;
  const { metrics } = config.robot;
  const system = new SystemValues({ system_root: config.system_root, clock });
  const collector = new SampleCollector({
    ...metrics,
    read: async () => {
      const values = await system.read();
      ros.collect();
      const agent = Object.entries(own()).map(([name, value]) => ({ name, labels: {}, value }));
      return [...values, ...agent, ...workloads.values(), ...[pushed, ros_fields].flatMap((source) => source.values())];
    },
    write: (chunk) => {
      samples.add(chunk);
      added();
    },
    clock,
    activity,
    server_time: () => time.serverTime(),
    log,
  });
  const sourceOf = (name: string): SampleSource => new SampleSource({ name, labels: {}, collector, clock, log });
  const [pushed, ros_fields] = [sourceOf("socket"), sourceOf("ros")];
  const ros = new RosValues({ values: metrics.ros, ros: options.ros, source: ros_fields, clock });
  const workloads = new WorkloadMetrics({ ...options, config: metrics, collector });
  collector.start();
  workloads.start();
  ros.start();
  return {
    pushed: new PushedSamples(pushed, clock),
    stop: async () => {
      workloads.stop();
      collector.stop();
      await ros.stop();
    },
  };
}
