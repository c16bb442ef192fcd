import assert from "node:assert/strict";
import { test } from "node:test";
import type { HealthPoint } from "@roamfleet/protocol/routes";
import { chartText, hasValues, lonely, seriesOf, sinceOf, valueText } from "./health-series.ts";
import { readTimelineSearch } from "../../search.ts";
import { joinWorkloads, timelineQuery } from "./robot-text.ts";

const point = (minute: number, extra: Partial<HealthPoint> = {}): HealthPoint => ({
  at: new Date(Date.UTC(2030, 0, 1, 0, minute)).toISOString(),
  cpu_percent: minute,
  load_1m: 0,
  memory_percent: 50,
  temperature_celsius: null,
  battery_percent: null,
  disks: [{ mount: "/", percent: 10 }],
  ...extra,
});

test("a health chart has a gap where the robot reported nothing for more than 11 minutes", () => {
  const { times, cpu } = seriesOf([point(0), point(6), point(18), point(19)], 3_600);
  assert.deepEqual(cpu[0]!.values, [0, 6, null, 18, 19]);
  assert.equal(times.length, 5);
  assert.ok(times.every((time, n) => n === 0 || time > times[n - 1]!));
});

test("a health chart of a month has no gap between points that are hours apart", () => {
  const { cpu } = seriesOf([point(0), point(144), point(288)], 2_592_000);
  assert.deepEqual(cpu[0]!.values, [0, 144, 288]);
});

test("a health chart includes a disk that is missing in some points", () => {
  const disks = [
    { mount: "/", percent: 10 },
    { mount: "/data", percent: 70 },
  ];
  const series = seriesOf([point(0), point(1, { disks })], 3_600);
  assert.deepEqual(series.disks, [
    { label: "/", values: [10, 10] },
    { label: "/data", values: [null, 70] },
  ]);
  assert.equal(hasValues(series.battery), false);
  assert.equal(hasValues(series.disks), true);
  assert.equal(chartText("Disks", "%", series.disks), "Disks. /: from 10% to 10%, last 10%; /data: from 70% to 70%, last 70%");
});

test("the start of a health chart's range changes only once per minute", () => {
  const now = Date.UTC(2030, 0, 1, 12, 0, 5);
  assert.equal(sinceOf(now, 3_600), sinceOf(now + 50_000, 3_600));
  assert.equal(sinceOf(now, 3_600), "2030-01-01T11:00:00.000Z");
  assert.notEqual(sinceOf(now, 3_600), sinceOf(now + 60_000, 3_600));
});

test("joins the server's apps with the workloads that the robot reports", () => {
  const ref = (id: string) => ({ id, tag: id });
  const apps = [
    { app: "main", current: ref("a"), desired: ref("b"), status: "running", release_state: "failed" as const },
    { app: "nav", current: ref("a"), desired: ref("a"), status: "running", release_state: "current" as const },
  ];
  const reported = [{ app: "nav", kind: "container_image", status: "running", restarts: 3, release_tag: "a" }];
  const [main, nav] = joinWorkloads(apps, reported);
  assert.equal(main!.release_state, "failed");
  assert.deepEqual([nav!.release_state, nav!.restarts], ["current", 3]);
});

test("a timeline range includes its last day", () => {
  const search = readTimelineSearch({ from: "2030-01-01", to: "2030-01-01", kind: 5 });
  const { since, until } = timelineQuery(search);
  assert.equal(Date.parse(until!) - Date.parse(since!), 86_400_000);
  assert.deepEqual(readTimelineSearch({ from: "2030-13-01", to: "yesterday" }), {});
});

test("finds isolated chart values, which no line connects", () => {
  assert.deepEqual(lonely([7]), [0]);
  assert.deepEqual(lonely([1, null, 2, null, 3, 4, null, 0]), [0, 2, 7]);
  assert.equal(lonely([1, 2, null, 3, 4]), null);
  assert.equal(lonely([null]), null);
});

test("values have units", () => {
  assert.deepEqual(
    [valueText(1234.5, "B"), valueText(0.5234, "GB/s"), valueText(31.24, "%"), valueText(2, "/s"), valueText(null, "%"), valueText(3, "")],
    ["1,235 B", "0.523 GB/s", "31.2%", "2/s", "—", "3"],
  );
});
