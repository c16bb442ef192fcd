import type { HealthBody } from "@roamfleet/protocol/link";

/** Returns the snapshot of a healthy robot. */
export const healthOf = (more: Partial<HealthBody> = {}): HealthBody => ({
  at: "2030-01-01T00:00:00.000Z",
  boot_id: "boot-1",
  uptime_seconds: 100,
  cpu: { percent: 1, load_1m: 0.5, cores: 4, temperature_celsius: null },
  memory: { used_bytes: 1, total_bytes: 2 },
  disks: [],
  network: [],
  battery: null,
  workloads: [],
  ros: null,
  checks: [],
  metrics: {},
  status: "ok",
  ...more,
});
