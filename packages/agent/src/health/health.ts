import { networkInterfaces } from "node:os";
import type { Clock } from "@roamfleet/clock";
import type { HealthBody } from "@roamfleet/protocol/link";
import type { WorkloadStatus } from "../contract.ts";
import type { RobotTime } from "../robot-time.ts";
import { runChecks, worstStatus } from "./checks.ts";
import { readDisks } from "./read-disks.ts";
import {
  type CpuTimes,
  readBattery,
  readCpuTimes,
  readLoad1m,
  readMemory,
  readNetwork,
  readTemperatureCelsius,
  readUptimeSeconds,
} from "./read-proc.ts";

const ADDRESSES_MAX = 64;

export interface HealthOptions {
  /** Root of proc and sys. */
  system_root: string;
  clock: Clock;
  time: RobotTime;
  boot_id: string;
  workloads: () => WorkloadStatus[];
  /** The state of the robot's ROS; absent, and null: none. */
  ros?: () => Promise<Pick<HealthBody, "ros" | "ros_adapters">>;
  /** Metrics of the agent itself. */
  metrics: () => Record<string, number>;
  /** Addresses by interface; absent: the machine's own. */
  addresses?: () => Map<string, string[]>;
}

/** Measures the robot from /proc, /sys and statfs: 0.1 ms warm, no child process, no library. */
export class HealthMeter {
  readonly #options: HealthOptions;
  #last_cpu: CpuTimes;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#last_cpu = readCpuTimes(options.system_root);
  }

  async measure(): Promise<HealthBody> {
    const { system_root: root, clock, time, boot_id, metrics } = this.#options;
    const addresses = (this.#options.addresses ?? machineAddresses)();
    const workloads = this.#options.workloads().slice(0, 256);
    const measured = {
      cpu: this.#cpu(),
      memory: readMemory(root),
      disks: await readDisks(root, clock),
    };
    const checks = runChecks(measured, workloads, time.offset());
    return {
      at: time.now().toISOString(),
      boot_id,
      uptime_seconds: readUptimeSeconds(root),
      ...measured,
      network: readNetwork(root).map((one) => ({ ...one, addresses: (addresses.get(one.name) ?? []).slice(0, ADDRESSES_MAX) })),
      battery: readBattery(root),
      workloads,
      ...((await this.#options.ros?.()) ?? { ros: null }),
      checks,
      metrics: metrics(),
      status: worstStatus(checks),
    };
  }

  /** Percent since the last measurement, over all cores: 100 means all of them are busy. */
  #cpu(): HealthBody["cpu"] {
    const root = this.#options.system_root;
    const before = this.#last_cpu;
    const now = readCpuTimes(root);
    this.#last_cpu = now;
    const total = now.total - before.total;
    const percent = total > 0 ? Math.min(100, Math.max(0, (100 * (now.busy - before.busy)) / total)) : 0;
    return {
      percent: Math.round(percent * 10) / 10,
      load_1m: readLoad1m(root),
      cores: now.cores,
      temperature_celsius: readTemperatureCelsius(root),
    };
  }
}

function machineAddresses(): Map<string, string[]> {
  const addresses = new Map<string, string[]>();
  for (const [name, list] of Object.entries(networkInterfaces()))
    addresses.set(
      name,
      (list ?? []).map(({ address }) => address),
    );
  return addresses;
}
