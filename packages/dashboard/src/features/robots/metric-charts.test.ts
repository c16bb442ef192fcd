import assert from "node:assert/strict";
import { test } from "node:test";
import type { RobotMetrics } from "@roamfleet/protocol/routes";
import { chartsOf, metricPeriod } from "./metric-charts.ts";

const answer = (name: string, mean: (number | null)[], labels: Record<string, string> = {}): RobotMetrics["series"][number] => ({
  name,
  labels,
  mean,
  min: mean,
  max: mean,
});

const metricsOf = (series: RobotMetrics["series"], step_seconds = 60): RobotMetrics => ({
  robot_id: "rob_1",
  since: "2030-01-01T00:00:00Z",
  until: "2030-01-01T00:05:00Z",
  step_seconds,
  series,
  omitted_series: 0,
});

test("a metric has one chart with a line for each of its series", () => {
  const disk = (mount: string, value: number) => answer("disk_used_bytes", [value, value], { mount });
  const { charts, times } = chartsOf(metricsOf([disk("/", 2e9), disk("/data", 5e8), answer("cpu_percent", [1, 2])]));
  assert.deepEqual(
    charts.map(({ name, unit, max, series }) => [name, unit, max, series.map(({ label }) => label)]),
    [
      ["disk_used_bytes", "GB", undefined, ["/", "/data"]],
      ["cpu_percent", "%", 100, ["cpu_percent"]],
    ],
  );
  assert.deepEqual(charts[0]?.series[1]?.values, [0.5, 0.5]);
  assert.deepEqual(times, [Date.parse("2030-01-01T00:00:30Z") / 1_000, Date.parse("2030-01-01T00:01:30Z") / 1_000]);
});

test("short gaps are filled, longer ones are shown, and the line ends at the last sample", () => {
  const { charts } = chartsOf(metricsOf([answer("load_1m", [null, 1, null, 3, null, null, null, null, null, null, 5, null])], 12));
  assert.deepEqual(charts[0]?.series[0]?.values, [null, 1, 1, 3, 3, 3, 3, 3, 3, null, 5, null]);
});

test("a counter is shown as a rate", () => {
  const { charts } = chartsOf(metricsOf([answer("network_receive_bytes", [0, 6_000, 12_000, 12_001], { interface: "eth0" })]));
  assert.deepEqual([charts[0]?.unit, charts[0]?.series[0]?.values], ["B/s", [null, 100, 100, null]]);
});

test("the parts of a histogram are shown as rates, a gauge with such a name is not", () => {
  const values = [0, 60, 180, 181];
  const { charts } = chartsOf(
    metricsOf([answer("plan_seconds_bucket", values, { le: "1" }), answer("plan_seconds_sum", values), answer("queue_count", values)]),
  );
  assert.deepEqual(
    charts.map(({ unit, series }) => [unit, series[0]?.values]),
    [
      ["/s", [null, 1, 2, null]],
      ["s/s", [null, 1, 2, null]],
      ["", values],
    ],
  );
});

test("a metric without values has no chart", () => {
  assert.deepEqual(chartsOf(metricsOf([answer("load_1m", [null, null])])).charts, []);
});

test("the period covers the range and is the same within an interval", () => {
  const now = Date.parse("2030-01-01T08:00:01Z");
  const period = metricPeriod(now, "1h");
  assert.deepEqual(metricPeriod(now + 5_000, "1h"), period);
  assert.equal(Date.parse(period.until) - Date.parse(period.since), 3_600_000);
  assert.ok(Date.parse(period.until) >= now && Date.parse(period.until) - now <= 30_000);
});
