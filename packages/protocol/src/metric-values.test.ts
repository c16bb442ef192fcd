import assert from "node:assert/strict";
import { test } from "node:test";
import { countersAmong, isCounter, lastOf, provingNames, shownValues, unitOf } from "./metric-values.ts";

const series = (values: (number | null)[]) => ({ mean: values, max: values });

test("shows averages of a gauge, and the rate of a counter", () => {
  assert.deepEqual(shownValues(series([1, null, 3]), 10, isCounter("cpu_percent")), [1, null, 3]);
  assert.deepEqual(shownValues(series([100, 150, null, 350, 351, null]), 10, isCounter("requests_total")), [null, 5, null, 10, null, null]);
});

test("the rate of a counter that was reset is unknown for one interval", () => {
  assert.deepEqual(shownValues(series([100, 20, 40, 41]), 10, isCounter("network_receive_bytes")), [null, null, 2, null]);
});

test("units and counters follow from names", () => {
  assert.deepEqual(["memory_used_bytes", "cpu_percent", "temperature_celsius", "wait_seconds_total", "load_1m"].map(unitOf), [
    "bytes",
    "percent",
    "celsius",
    "seconds",
    "none",
  ]);
  assert.deepEqual(["network_transmit_bytes", "disk_used_bytes", "errors_total"].map(isCounter), [true, false, true]);
});

test("parts of histograms and summaries are counters, gauges with such names are not", () => {
  const isCounterHere = countersAmong([
    { name: "plan_seconds_bucket", labels: { le: "0.5" } },
    { name: "plan_seconds_count", labels: {} },
    { name: "wait_seconds", labels: { quantile: "0.9" } },
    { name: "queue_count", labels: {} },
    { name: "coal_bucket", labels: { side: "left" } },
  ]);
  for (const name of ["plan_seconds_bucket", "plan_seconds_count", "plan_seconds_sum", "wait_seconds_count", "wait_seconds_sum", "a_total"])
    assert.equal(isCounterHere(name), true, name);
  for (const name of ["queue_count", "coal_bucket", "wait_seconds", "plan_seconds", "count"])
    assert.equal(isCounterHere(name), false, name);
  assert.deepEqual([...provingNames(["plan_seconds_sum", "plan_seconds_count", "cpu_percent"])], ["plan_seconds", "plan_seconds_bucket"]);
  assert.deepEqual(shownValues(series([100, 150, 160]), 10, true), [null, 5, null]);
  assert.deepEqual(["plan_seconds_sum", "plan_seconds_count"].map(unitOf), ["seconds", "none"]);
});

test("the last value skips intervals without samples", () => {
  assert.equal(lastOf([1, 0, null]), 0);
  assert.equal(lastOf([null]), undefined);
});
