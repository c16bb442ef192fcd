import { isDeepStrictEqual } from "node:util";
import type { Clock } from "@roamfleet/clock";
import type { Health, HealthBody } from "@roamfleet/protocol/link";

/** Time after which a snapshot is sent although nothing has changed. Charts of health show a gap after twice this time. */
const UNCHANGED_MS_MAX = 300_000;
/** Minimum time between snapshots that are sent because of a measured value, such as the CPU usage of a working robot. */
const VALUE_MS_MIN = 60_000;
/** Maximum time until the lists of ROS names are sent again although they have not changed, in case the server has lost them. */
const ROS_RESEND_MS = 3_600_000;
/** Minimum changes of measured values for a snapshot to be sent after VALUE_MS_MIN instead of UNCHANGED_MS_MAX. */
const CHANGES_MIN = { cpu_percent: 20, memory_percent: 2, disk_percent: 1, temperature_celsius: 3, battery_percent: 2 };

type Ros = Pick<HealthBody, "ros" | "ros_adapters">;

/** Decides for one link which health snapshots are sent, so that an idle robot sends little. The first one is always sent completely. */
export class HealthChanges {
  readonly #clock: Clock;
  readonly #interval_ms: number;
  #last: { snapshot: HealthBody; at_ms: number } | undefined;
  /** The previous measurement, whether it was sent or not. */
  #before: HealthBody | undefined;
  #ros: { names: Ros; at_ms: number } | undefined;

  /** `interval_ms`: interval of the measurements. */
  constructor({ clock, interval_ms }: { clock: Clock; interval_ms: number }) {
    this.#clock = clock;
    this.#interval_ms = interval_ms;
  }

  /** Returns the parts of a new snapshot to send; undefined: send nothing. Call `sent` once they were queued. */
  next(snapshot: HealthBody): Omit<Health, "type"> | undefined {
    const now = this.#clock.monotonic();
    const before = this.#before;
    this.#before = snapshot;
    const has_ros = this.#ros !== undefined && now - this.#ros.at_ms < ROS_RESEND_MS && isDeepStrictEqual(this.#ros.names, rosOf(snapshot));
    if (!has_ros) return { snapshot };
    if (this.#last !== undefined && !this.#isDue(this.#last, [before ?? this.#last.snapshot, snapshot], now)) return undefined;
    const { ros_adapters: _, ...rest } = snapshot;
    return { snapshot: { ...rest, ros: null }, ros_unchanged: true };
  }

  #isDue(last: { snapshot: HealthBody; at_ms: number }, measured: [before: HealthBody, now: HealthBody], now: number): boolean {
    // Timers are not exact, so a measurement may come up to half an interval early.
    const elapsed_ms = now - last.at_ms + this.#interval_ms / 2;
    if (elapsed_ms >= UNCHANGED_MS_MAX) return true;
    if (isStateChanged(last.snapshot, measured[1])) return true;
    // A value must differ in two measurements in a row: many programs are busy for a few seconds only.
    return elapsed_ms >= VALUE_MS_MIN && measured.every((snapshot) => isValueChanged(last.snapshot, snapshot));
  }

  sent(snapshot: HealthBody): void {
    const at_ms = this.#clock.monotonic();
    this.#last = { snapshot, at_ms };
    const names = rosOf(snapshot);
    if (!isDeepStrictEqual(this.#ros?.names, names) || at_ms - (this.#ros?.at_ms ?? 0) >= ROS_RESEND_MS) this.#ros = { names, at_ms };
  }
}

/** Returns the lists of ROS names, which are the largest part of a snapshot and seldom change. */
const rosOf = ({ ros, ros_adapters }: HealthBody): Ros => ({ ros, ...(ros_adapters === undefined ? {} : { ros_adapters }) });

const percent = (used: number, total: number): number => (total > 0 ? (100 * used) / total : 0);
const differs = (a: number | null | undefined, b: number | null | undefined, min: number): boolean =>
  typeof a === "number" && typeof b === "number" ? Math.abs(a - b) >= min : a !== b;

/** Returns whether a snapshot contains a change that must not wait. */
export const isStateChanged = (a: HealthBody, b: HealthBody): boolean => !isDeepStrictEqual(statesOf(a), statesOf(b));

/** Returns whether measured values differ by more than they usually vary. */
export function isValueChanged(a: HealthBody, b: HealthBody): boolean {
  return (
    differs(a.cpu.percent, b.cpu.percent, CHANGES_MIN.cpu_percent) ||
    differs(a.cpu.temperature_celsius, b.cpu.temperature_celsius, CHANGES_MIN.temperature_celsius) ||
    differs(
      percent(a.memory.used_bytes, a.memory.total_bytes),
      percent(b.memory.used_bytes, b.memory.total_bytes),
      CHANGES_MIN.memory_percent,
    ) ||
    differs(a.battery?.percent, b.battery?.percent, CHANGES_MIN.battery_percent) ||
    a.disks.some((disk, i) => {
      const other = b.disks[i];
      return (
        other !== undefined &&
        differs(percent(disk.used_bytes, disk.total_bytes), percent(other.used_bytes, other.total_bytes), CHANGES_MIN.disk_percent)
      );
    })
  );
}

/** Returns the parts of a snapshot of which every change counts. */
const statesOf = ({ boot_id, status, checks, workloads, battery, disks, network, metrics }: HealthBody): unknown => ({
  boot_id,
  status,
  checks: checks.map((check) => [check.name, check.status]),
  workloads,
  charging: battery?.charging,
  disks: disks.map(({ mount, total_bytes }) => [mount, total_bytes]),
  network: network.map(({ name, addresses }) => [name, addresses]),
  dropped: metrics["log_records_dropped"],
});
