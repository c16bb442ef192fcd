import assert from "node:assert/strict";
import { test } from "node:test";
import { formatMetricGate, type MetricGate, parseMetricGate } from "./metric-gate.ts";

const GATES: [text: string, gate: MetricGate][] = [
  ["memory_used_bytes mean rise 10%", { name: "memory_used_bytes", aggregation: "mean", rise_percent: 10 }],
  ["frames_total max fall 2.5% tolerate 5%", { name: "frames_total", aggregation: "max", fall_percent: 2.5, tolerate_percent: 5 }],
  [
    "disk_used_bytes{mount=/data,kind=ssd} max above 5000000000",
    { name: "disk_used_bytes", labels: { mount: "/data", kind: "ssd" }, aggregation: "max", above: 5e9 },
  ],
  ["battery_percent mean below -0.5", { name: "battery_percent", aggregation: "mean", below: -0.5 }],
];
for (const [text, gate] of GATES)
  test(`the metric gate ${text} is parsed and formatted`, () => {
    assert.deepEqual(parseMetricGate(` ${text} `), gate);
    assert.equal(formatMetricGate(gate), text);
  });

for (const text of [
  "",
  "memory_used_bytes",
  "a mean rise 10",
  "a mean above 10%",
  "a p99 above 1",
  "a{} mean above 1",
  "a-b max above 1",
  "a mean rise 1% tolerate 5",
])
  test(`the metric gate "${text}" is refused`, () => assert.equal(parseMetricGate(text), undefined));
