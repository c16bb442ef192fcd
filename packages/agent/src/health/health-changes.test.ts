import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { HealthBody } from "@roamfleet/protocol/link";
import { HealthChanges, isStateChanged, isValueChanged } from "./health-changes.ts";

const ROS = { distro: "humble", adapter: "dds", nodes: ["/a"], topics: ["/scan"] };
const snapshotOf = (more: Partial<HealthBody> = {}): HealthBody => ({
  at: "2030-01-01T00:00:00.000Z",
  boot_id: "boot",
  uptime_seconds: 100,
  cpu: { percent: 5, load_1m: 0.5, cores: 4, temperature_celsius: 50 },
  memory: { used_bytes: 500, total_bytes: 1_000 },
  disks: [{ mount: "/", used_bytes: 500, total_bytes: 1_000 }],
  network: [{ name: "eth0", rx_bytes: 1, tx_bytes: 1, addresses: ["10.0.0.1"] }],
  battery: { percent: 80, charging: false },
  workloads: [],
  ros: ROS,
  ros_adapters: [{ name: "dds", state: "connected" }],
  checks: [{ name: "memory", status: "ok", message: "50% used" }],
  metrics: { agent_rss_bytes: 1 },
  status: "ok",
  ...more,
});

test("sends the first snapshot completely, then changes immediately and an unchanged snapshot every five minutes", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const changes = new HealthChanges({ clock, interval_ms: 15_000 });
  const send = (snapshot: HealthBody): string => {
    const message = changes.next(snapshot);
    if (message === undefined) return "nothing";
    changes.sent(snapshot);
    return message.ros_unchanged === true ? "without ROS names" : "complete";
  };
  assert.equal(send(snapshotOf()), "complete");
  const sent: string[] = [];
  for (let i = 1; i <= 40; i += 1) {
    await clock.advance({ seconds: 15 });
    sent.push(send(snapshotOf({ uptime_seconds: 100 + 15 * i, metrics: { agent_rss_bytes: i } })));
  }
  assert.deepEqual([sent[19], sent[39], sent.filter((one) => one === "nothing").length], ["without ROS names", "without ROS names", 38]);
  assert.equal(send(snapshotOf({ status: "warn" })), "without ROS names");
  assert.equal(send(snapshotOf({ status: "warn", ros: { ...ROS, topics: ["/scan", "/tf"] } })), "complete");
  await clock.advance({ hours: 1 });
  assert.equal(send(snapshotOf()), "complete", "the names are sent again after an hour");
});

test("sends a snapshot again if it could not be queued", () => {
  const changes = new HealthChanges({ clock: new SimulatedClock({ at: "2030-01-01T00:00:00Z" }), interval_ms: 15_000 });
  assert.deepEqual(changes.next(snapshotOf()), { snapshot: snapshotOf() });
  assert.deepEqual(changes.next(snapshotOf()), { snapshot: snapshotOf() });
});

test("sends a changed value after a minute, without the ROS names if these have not changed", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const changes = new HealthChanges({ clock, interval_ms: 15_000 });
  changes.sent(snapshotOf());
  const { ros_adapters: _, ...rest } = snapshotOf({ cpu: { percent: 90, load_1m: 1, cores: 4, temperature_celsius: 50 } });
  await clock.advance({ seconds: 45 });
  assert.equal(changes.next({ ...snapshotOf(), ...rest }), undefined);
  await clock.advance({ seconds: 15 });
  assert.deepEqual(changes.next({ ...snapshotOf(), ...rest }), { snapshot: { ...rest, ros: null }, ros_unchanged: true });
});

test("sends a changed CPU usage when two measurements in a row show it", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const changes = new HealthChanges({ clock, interval_ms: 15_000 });
  changes.sent(snapshotOf());
  await clock.advance({ seconds: 60 });
  const busy = { cpu: { percent: 90, load_1m: 1, cores: 4, temperature_celsius: 50 } };
  const sent: boolean[] = [];
  for (const more of [{}, busy, {}, busy, busy]) {
    await clock.advance({ seconds: 15 });
    sent.push(changes.next(snapshotOf(more)) !== undefined);
  }
  assert.deepEqual(sent, [false, false, false, false, true]);
});

const disk = (used_bytes: number) => ({ disks: [{ mount: "/", used_bytes, total_bytes: 1_000 }] });
const battery = (percent: number, charging = false) => ({ battery: { percent, charging } });
for (const [name, more, changed] of [
  ["the CPU by 19 points", { cpu: { percent: 24, load_1m: 3, cores: 4, temperature_celsius: 52 } }, "nothing"],
  ["the CPU by 20 points", { cpu: { percent: 25, load_1m: 3, cores: 4, temperature_celsius: 50 } }, "a value"],
  ["the temperature by 3 °C", { cpu: { percent: 5, load_1m: 0, cores: 4, temperature_celsius: 53 } }, "a value"],
  ["a temperature that is gone", { cpu: { percent: 5, load_1m: 0, cores: 4, temperature_celsius: null } }, "a value"],
  ["memory by 1 percent", { memory: { used_bytes: 510, total_bytes: 1_000 } }, "nothing"],
  ["memory by 2 percent", { memory: { used_bytes: 520, total_bytes: 1_000 } }, "a value"],
  ["a disk by 1 percent", disk(510), "a value"],
  ["a disk by less", disk(509), "nothing"],
  ["a disk that is gone", { disks: [] }, "a state"],
  ["the battery by 2 percent", battery(78), "a value"],
  ["a charger", battery(80, true), "a state"],
  ["an address", { network: [{ name: "eth0", rx_bytes: 9, tx_bytes: 9, addresses: ["10.0.0.2"] }] }, "a state"],
  ["traffic", { network: [{ name: "eth0", rx_bytes: 9e9, tx_bytes: 9e9, addresses: ["10.0.0.1"] }] }, "nothing"],
  ["the text of a check", { checks: [{ name: "memory", status: "ok", message: "51% used" }] }, "nothing"],
  ["the status of a check", { checks: [{ name: "memory", status: "warn", message: "50% used" }] }, "a state"],
  ["dropped log records", { metrics: { log_records_dropped: 1 } }, "a state"],
] satisfies [string, Partial<HealthBody>, "a state" | "a value" | "nothing"][])
  test(`a change of ${name} counts as ${changed}`, () => {
    const [a, b] = [snapshotOf(), snapshotOf(more)];
    assert.equal(isStateChanged(a, b) ? "a state" : isValueChanged(a, b) ? "a value" : "nothing", changed);
  });
