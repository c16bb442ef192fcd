import { networkInterfaces } from "node:os";
import type { Clock } from "@roamfleet/clock";
import type { HealthBody } from "@roamfleet/protocol/link";
import type { WorkloadStatus } from "../contract.ts";
import type { RobotTime } from "../robot-time.ts";
import {
  cpuPercent,
  type CpuTimes,
  readBattery,
  readCpuTimes,
  readDisks,
  readLoad1m,
  readMemory,
  readNetwork,
  readTemperatureCelsius,
  readUptimeSeconds,
} from "./read-proc.ts";

const ADDRESSES_MAX = 64;

interface HealthOptions {
  system_root: string;
  clock: Clock;
  time: RobotTime;
  boot_id: string;
  workloads: () => WorkloadStatus[];
  /** Returns the state of the robot's ROS. Absent: the agent has no ROS. */
  ros?: () => Promise<Pick<HealthBody, "ros" | "ros_adapters">>;
  metrics: () => Record<string, number>;
  /** Returns the robot's IP addresses by interface. Absent: those of this machine. */
  addresses?: () => Map<string, string[]>;
}

/**
 * Measures the robot's health with /proc, /sys and statfs. A measurement takes 0.1 ms with warm caches. It needs no child process and no
 * library.
 */
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

  /**
   * Returns the robot's CPU metrics. `percent` is the usage since the last measurement over all cores: 100 means that all cores are busy.
   */
  #cpu(): HealthBody["cpu"] {
    const root = this.#options.system_root;
    const before = this.#last_cpu;
    const now = readCpuTimes(root);
    this.#last_cpu = now;
    return {
      percent: cpuPercent(before, now) ?? 0,
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

type Check = HealthBody["checks"][number];
type Status = Check["status"];

const DISK_PERCENT = { warn: 85, error: 95 };
const MEMORY_PERCENT = { warn: 90, error: 97 };
const TEMPERATURE_CELSIUS = { warn: 80, error: 95 };
const CLOCK_OFFSET_SECONDS = { warn: 5, error: 300 };

function grade(value: number, bounds: { warn: number; error: number }): Status {
  if (value >= bounds.error) return "error";
  return value >= bounds.warn ? "warn" : "ok";
}

const percentOf = (used: number, total: number): number => (total > 0 ? (100 * used) / total : 0);

/** Checks the robot's measurements against thresholds. `clock_offset_ms` is the robot's clock minus the server's, undefined if unknown. */
export function runChecks(
  measured: Pick<HealthBody, "disks" | "memory" | "cpu">,
  workloads: WorkloadStatus[],
  clock_offset_ms: number | undefined,
): Check[] {
  const checks: Check[] = [];
  for (const disk of measured.disks) {
    const percent = percentOf(disk.used_bytes, disk.total_bytes);
    checks.push({
      name: `disk:${disk.mount}`.slice(0, 255),
      status: grade(percent, DISK_PERCENT),
      message: `${percent.toFixed(0)}% used`,
    });
  }
  const memory = percentOf(measured.memory.used_bytes, measured.memory.total_bytes);
  checks.push({ name: "memory", status: grade(memory, MEMORY_PERCENT), message: `${memory.toFixed(0)}% used` });
  const { temperature_celsius } = measured.cpu;
  if (temperature_celsius !== null) {
    checks.push({
      name: "temperature",
      status: grade(temperature_celsius, TEMPERATURE_CELSIUS),
      message: `${temperature_celsius.toFixed(1)} °C`,
    });
  }
  if (clock_offset_ms !== undefined) checks.push(clockCheck(clock_offset_ms));
  checks.push(...workloads.map(workloadCheck));
  return checks.slice(0, 256);
}

function clockCheck(offset_ms: number): Check {
  const seconds = Math.abs(offset_ms) / 1000;
  const direction = offset_ms > 0 ? "ahead of" : "behind";
  return { name: "clock", status: grade(seconds, CLOCK_OFFSET_SECONDS), message: `${seconds.toFixed(1)} s ${direction} the server` };
}

function workloadCheck({ app, status, restarts }: WorkloadStatus): Check {
  const graded: Status = status === "failed" ? "error" : status === "starting" && restarts > 0 ? "warn" : "ok";
  const after = restarts === 0 ? "" : ` after ${restarts} restart${restarts === 1 ? "" : "s"}`;
  return { name: `app:${app}`.slice(0, 255), status: graded, message: `${status}${after}` };
}

export function worstStatus(checks: Check[]): Status {
  if (checks.some(({ status }) => status === "error")) return "error";
  return checks.some(({ status }) => status === "warn") ? "warn" : "ok";
}
