import type { Clock } from "@roamfleet/clock";
import type { HealthBody } from "@roamfleet/protocol/link";

const GIB = 1024 ** 3;

/** Generates a plausible health snapshot that varies slightly each time. */
export function healthOf(clock: Clock, boot_id: string, workloads: HealthBody["workloads"]): HealthBody {
  return {
    at: clock.now().toISOString(),
    boot_id,
    uptime_seconds: Math.round(clock.monotonic() / 1_000),
    cpu: {
      percent: Math.round(clock.random() * 1_000) / 10,
      load_1m: Math.round(clock.random() * 100) / 100,
      cores: 4,
      temperature_celsius: null,
    },
    memory: { used_bytes: Math.round((1 + clock.random()) * GIB), total_bytes: 4 * GIB },
    disks: [{ mount: "/", used_bytes: 10 * GIB, total_bytes: 64 * GIB }],
    network: [{ name: "eth0", rx_bytes: 0, tx_bytes: 0, addresses: [] }],
    battery: null,
    workloads,
    ros: null,
    checks: [],
    metrics: {},
    status: "ok",
  };
}
