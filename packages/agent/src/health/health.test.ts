import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { HealthBody } from "@roamfleet/protocol/link/messages";
import { Value } from "typebox/value";
import type { WorkloadStatus } from "../contract.ts";
import { RobotTime } from "../robot-time.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { HealthMeter, runChecks, worstStatus } from "./health.ts";

const GIB = 1024 ** 3;

/** Creates a directory with these files, for tests that read it instead of `/`. */
function fakeRoot(t: TestContext, files: Record<string, string>): string {
  const root = temporaryDirectory(t);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

const ROBOT = {
  "proc/stat": "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 50 0 50 350 50 0 0 0 0 0\ncpu1 50 0 50 350 50 0 0 0 0 0\nintr 1\n",
  "proc/loadavg": "0.75 0.50 0.25 1/200 4242\n",
  "proc/uptime": "12345.67 20000.00\n",
  "proc/meminfo": "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    6291456 kB\nCached:         1 kB\n",
  "proc/mounts":
    "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw 0 0\n/dev/sda1 /var/lib/bind ext4 rw 0 0\nserver:/x /nfs nfs4 rw 0 0\n/dev/sdb1 /media/a\\040b vfat rw 0 0\n/dev/gone /gone ext4 rw 0 0\n",
  "media/a b/file": "",
  "proc/net/dev":
    "Inter-|   Receive\n face |bytes    packets\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 1000 5 0 0 0 0 0 0 2000 6 0 0 0 0 0 0\n",
  "sys/class/thermal/thermal_zone0/temp": "45500\n",
  "sys/class/thermal/thermal_zone1/temp": "61000\n",
  "sys/class/thermal/thermal_zone2/temp": "-274000\n",
  "sys/class/power_supply/AC/type": "Mains\n",
  "sys/class/power_supply/BAT0/type": "Battery\n",
  "sys/class/power_supply/BAT0/capacity": "80\n",
  "sys/class/power_supply/BAT0/status": "Discharging\n",
  "sys/class/power_supply/mouse/type": "Battery\n",
  "sys/class/power_supply/mouse/scope": "Device\n",
  "sys/class/power_supply/mouse/capacity": "3\n",
};

function meter(root: string, clock = systemClock, workloads: WorkloadStatus[] = []): HealthMeter {
  return new HealthMeter({
    system_root: root,
    clock,
    time: new RobotTime(clock),
    boot_id: "boot",
    workloads: () => workloads,
    metrics: () => ({ outbox_reports: 3 }),
    addresses: () => new Map([["eth0", ["10.0.0.2", "fe80::1"]]]),
  });
}

test("reads a robot's health from /proc, /sys and statfs", async (t) => {
  const root = fakeRoot(t, ROBOT);
  const measured = meter(root);
  writeFileSync(join(root, "proc/stat"), "cpu  150 0 150 750 150 0 0 0 0 0\ncpu0 0\ncpu1 0\n");
  const health = await measured.measure();
  assert.deepEqual(Value.Errors(HealthBody, health), []);
  assert.deepEqual(health.cpu, { percent: 50, load_1m: 0.75, cores: 2, temperature_celsius: 61 });
  assert.deepEqual(health.memory, { used_bytes: 2 * GIB, total_bytes: 8 * GIB });
  assert.equal(health.uptime_seconds, 12_345.67);
  assert.deepEqual(health.network, [{ name: "eth0", rx_bytes: 1_000, tx_bytes: 2_000, addresses: ["10.0.0.2", "fe80::1"] }]);
  assert.deepEqual(health.battery, { percent: 80, charging: false });
  assert.deepEqual(
    health.disks.map(({ mount }) => mount),
    ["/", "/media/a b"],
  );
  assert.ok(health.disks.every(({ used_bytes, total_bytes }) => total_bytes > 0 && used_bytes >= 0 && used_bytes <= total_bytes));
  assert.deepEqual(health.metrics, { outbox_reports: 3 });
  assert.equal(health.ros, null);
});

for (const root_mount of ["overlay / overlay", "tmpfs / tmpfs", "10.0.0.1:/robots/7 / nfs4", "/dev/root / ext4"])
  test(`health includes the root file system mounted as ${root_mount}`, async (t) => {
    const mounts = `${root_mount} rw 0 0\ntmpfs /run tmpfs rw 0 0\noverlay /merged overlay rw 0 0\n/dev/mmcblk0p3 /data ext4 rw 0 0\n`;
    const { disks } = await meter(fakeRoot(t, { "proc/mounts": mounts, "data/file": "" })).measure();
    assert.deepEqual(
      disks.map(({ mount }) => mount),
      ["/", "/data"],
    );
  });

test("health includes no disk for read-only images, which are always full", async (t) => {
  const mounts = "/dev/root / squashfs ro 0 0\n/dev/loop0 /snap/core erofs ro 0 0\n/dev/mmcblk0p3 /data ext4 rw 0 0\n";
  const { disks } = await meter(fakeRoot(t, { "proc/mounts": mounts, "snap/core/file": "", "data/file": "" })).measure();
  assert.deepEqual(
    disks.map(({ mount }) => mount),
    ["/data"],
  );
});

test("returns a valid health snapshot when no system file is readable", async (t) => {
  const health = await meter(temporaryDirectory(t)).measure();
  assert.deepEqual(Value.Errors(HealthBody, health), []);
  assert.deepEqual([health.battery, health.cpu.temperature_celsius, health.disks, health.cpu.cores], [null, null, [], 1]);
});

test("the health snapshot of the test machine matches the protocol schema", async () => {
  const clock = systemClock;
  const health = await new HealthMeter({
    system_root: "/",
    clock,
    time: new RobotTime(clock),
    boot_id: "boot",
    workloads: () => [],
    metrics: () => ({}),
  }).measure();
  assert.deepEqual(Value.Errors(HealthBody, health), []);
  assert.ok(health.memory.total_bytes > 0 && health.memory.used_bytes > 0);
  assert.ok(health.uptime_seconds > 0);
  assert.ok(
    health.disks.some(({ mount }) => mount === "/"),
    JSON.stringify(health.disks),
  );
});

test("health checks grade disk, memory, temperature, clock and workloads, and the worst sets the status", () => {
  const workload = (app: string, status: string, restarts = 0): WorkloadStatus => ({
    app,
    kind: "app_bundle",
    status,
    restarts,
    release_tag: null,
  });
  const checks = runChecks(
    {
      disks: [
        { mount: "/", used_bytes: 86, total_bytes: 100 },
        { mount: "/data", used_bytes: 10, total_bytes: 100 },
      ],
      memory: { used_bytes: 98, total_bytes: 100 },
      cpu: { percent: 0, load_1m: 0, cores: 1, temperature_celsius: 79 },
    },
    [workload("main", "running"), workload("b", "starting", 2), workload("c", "failed", 5)],
    -6_000,
  );
  assert.deepEqual(Object.fromEntries(checks.map(({ name, status }) => [name, status])), {
    "disk:/": "warn",
    "disk:/data": "ok",
    memory: "error",
    temperature: "ok",
    clock: "warn",
    "app:main": "ok",
    "app:b": "warn",
    "app:c": "error",
  });
  assert.equal(checks.find(({ name }) => name === "clock")!.message, "6.0 s behind the server");
  assert.equal(worstStatus(checks), "error");
  assert.equal(worstStatus([]), "ok");
});

test("estimates the server's time with the monotonic clock after the robot's clock is changed", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const shifted = { now: () => new Date(clock.now().getTime() + shift), monotonic: () => clock.monotonic() };
  let shift = 0;
  const time = new RobotTime(Object.assign(Object.create(clock) as SimulatedClock, shifted));
  time.sync(Date.parse("2030-01-01T00:00:01Z"));
  assert.equal(time.now().toISOString(), "2030-01-01T00:00:00.000Z", "an offset of a second is not corrected");
  shift = 3_600_000;
  await clock.advance({ seconds: 10 });
  assert.equal(time.now().toISOString(), "2030-01-01T00:00:11.000Z");
  assert.equal(time.offset(), 3_599_000);
});
