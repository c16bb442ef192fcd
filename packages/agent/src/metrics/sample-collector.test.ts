import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { decodeChunk, type Series } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { SampleCollector, SERIES_MAX } from "./sample-collector.ts";
import { SystemValues, type Value } from "./system-values.ts";

const START = Date.parse("2030-01-01T00:00:00Z");

function start(read: () => Value[]) {
  let pending = 0;
  const activity = {
    begin: () => {
      pending += 1;
      return () => void (pending -= 1);
    },
    get pending() {
      return pending;
    },
    settled: async () => {
      while (pending > 0) await new Promise((resolve) => setImmediate(resolve));
    },
  };
  const clock = new SimulatedClock({ at: new Date(START).toISOString() });
  const chunks: Series[][] = [];
  const clock_error = { ms: 0 };
  const warned: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void warned.push(line) });
  const collector = new SampleCollector({
    interval_seconds: 10,
    flush_seconds: 60,
    read: async () => read(),
    write: (chunk) => chunks.push(decodeChunk(chunk)),
    clock,
    activity,
    server_time: () => clock.now().getTime() + clock_error.ms,
    log,
  });
  collector.start();
  /** Advances step by step, so that each measurement ends at its own time. */
  const advance = async (seconds: number): Promise<void> => {
    for (let i = 0; i < seconds; i += 10) {
      await clock.advance({ seconds: 10 });
      await activity.settled();
    }
  };
  return { collector, chunks, clock_error, warned, advance };
}

test("collects a sample of each value at the interval, and passes them on at each flush", async () => {
  let count = 0;
  const { chunks, advance, collector } = start(() => [{ name: "cpu_percent", labels: {}, value: (count += 1) }]);
  await advance(50);
  assert.equal(chunks.length, 0);
  await advance(20);
  const times = Array.from({ length: 5 }, (_, i) => START + 10_000 * (i + 1));
  const [first] = chunks;
  assert.deepEqual(first?.[0]?.times.slice(0, 5), times);
  assert.deepEqual(first?.[0]?.values.slice(0, 5), [1, 2, 3, 4, 5]);
  collector.stop();
  const collected = chunks.flatMap((series) => series.flatMap(({ values }) => values));
  assert.deepEqual(collected, [1, 2, 3, 4, 5, 6, 7], "the last ones are passed on when it stops");
});

test("samples that were taken with a wrong clock get the right times once the server's time is known", async () => {
  const { chunks, clock_error, advance, collector } = start(() => [{ name: "cpu_percent", labels: {}, value: 1 }]);
  await advance(40);
  clock_error.ms = 86_400_000;
  collector.stop();
  assert.deepEqual(
    chunks[0]?.[0]?.times,
    [1, 2, 3, 4].map((i) => START + 86_400_000 + i * 10_000),
  );
});

test("names and labels are made valid, and series beyond the maximum are counted", async () => {
  const { chunks, advance, collector, warned } = start(() => [
    { name: "arm.temperature[°C]", labels: { mount: "" }, value: 1 },
    { name: "disk_used_bytes", labels: { mount: `/${"ü".repeat(200)}` }, value: 2 },
    ...Array.from({ length: SERIES_MAX }, (_, i) => ({ name: `value_${i}`, labels: {}, value: i })),
  ]);
  await advance(10);
  collector.stop();
  const [series] = chunks;
  assert.equal(series?.length, SERIES_MAX);
  assert.deepEqual([series?.[0]?.name, series?.[0]?.labels], ["arm_temperature__C_", { mount: "-" }]);
  assert.equal(series?.[1]?.labels.mount, `/${"ü".repeat(63)}`);
  assert.match(warned.join(""), /"samples":2/);
});

test("more samples than fit into a chunk are passed on in several", async () => {
  const { chunks, advance, collector } = start(() =>
    Array.from({ length: 400 }, (_, i) => ({ name: `value_${i}`, labels: {}, value: Math.random() })),
  );
  await advance(40);
  collector.stop();
  assert.equal(chunks.flat().length, 400);
  assert.equal(
    chunks.flat().reduce((sum, { values }) => sum + values.length, 0),
    1_600,
  );
});

test("reads the values of this machine, and leaves out what it does not have", async (t) => {
  const root = temporaryDirectory(t);
  mkdirSync(join(root, "proc/net"), { recursive: true });
  const write = (file: string, text: string): void => writeFileSync(join(root, "proc", file), text);
  write("stat", "cpu 100 0 100 800 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0\n");
  write("loadavg", "0.50 0.40 0.30 1/100 1\n");
  write("meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n");
  write("mounts", "");
  write("net/dev", " eth0: 10 0 0 0 0 0 0 0 20 0 0\n veth1: 1 0 0 0 0 0 0 0 2 0 0\n");
  const values = new SystemValues({ system_root: root, clock: systemClock });
  write("stat", "cpu 150 0 100 850 0 0 0 0\ncpu0 150 0 100 850 0 0 0 0\n");
  const shown = (await values.read()).map(({ name, labels, value }) => [name, ...Object.values(labels), value]);
  assert.deepEqual(shown, [
    ["cpu_percent", 50],
    ["load_1m", 0.5],
    ["memory_used_bytes", 600 * 1024],
    ["memory_total_bytes", 1000 * 1024],
    ["network_receive_bytes", "eth0", 10],
    ["network_transmit_bytes", "eth0", 20],
  ]);
  const again = (await values.read()).map(({ name }) => name);
  assert.ok(!again.includes("cpu_percent"), "no time has passed");
});
