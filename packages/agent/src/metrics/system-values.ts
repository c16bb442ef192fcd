import type { Clock } from "@roamfleet/clock";
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
} from "../health/read-proc.ts";

/** A measured value. Counters such as `network_receive_bytes` count since boot. */
export interface Value {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Maximum disks and network interfaces. A robot with more reports only the first ones. */
const DISKS_MAX = 16;
const INTERFACES_MAX = 16;
/** Interfaces of containers and bridges. There may be many, and their traffic is also that of another interface. */
const VIRTUAL = /^(veth|docker|br-|virbr|cni|flannel|cali)/;

/** Measures values of the machine: CPU, memory, disks, temperature, battery and network. */
export class SystemValues {
  readonly #root: string;
  readonly #clock: Clock;
  #cpu: CpuTimes;

  constructor({ system_root, clock }: { system_root: string; clock: Clock }) {
    this.#root = system_root;
    this.#clock = clock;
    this.#cpu = readCpuTimes(system_root);
  }

  async read(): Promise<Value[]> {
    const root = this.#root;
    const values: Value[] = [];
    const add = (name: string, value: number | undefined, labels: Record<string, string> = {}): void => {
      if (value !== undefined && Number.isFinite(value)) values.push({ name, labels, value });
    };
    add("cpu_percent", this.#cpuPercent());
    add("load_1m", readLoad1m(root));
    const memory = readMemory(root);
    add("memory_used_bytes", memory.used_bytes);
    add("memory_total_bytes", memory.total_bytes);
    add("temperature_celsius", readTemperatureCelsius(root) ?? undefined);
    add("battery_percent", readBattery(root)?.percent);
    for (const { mount, used_bytes, total_bytes } of (await readDisks(root, this.#clock)).slice(0, DISKS_MAX)) {
      add("disk_used_bytes", used_bytes, { mount });
      add("disk_total_bytes", total_bytes, { mount });
    }
    const interfaces = readNetwork(root).filter(({ name }) => !VIRTUAL.test(name));
    for (const { name, rx_bytes, tx_bytes } of interfaces.slice(0, INTERFACES_MAX)) {
      add("network_receive_bytes", rx_bytes, { interface: name });
      add("network_transmit_bytes", tx_bytes, { interface: name });
    }
    return values;
  }

  /** Returns the usage since the last call over all cores, in percent with one decimal; undefined if no time has passed. */
  #cpuPercent(): number | undefined {
    const [before, now] = [this.#cpu, readCpuTimes(this.#root)];
    this.#cpu = now;
    return cpuPercent(before, now);
  }
}
