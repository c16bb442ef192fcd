import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "@roamfleet/agent/parts";
import { readFleetOptions } from "./options.ts";

const server = "http://127.0.0.1:7600";
const key = "rf_enroll_x";

test("parses the swarm's flags and derives the name prefix of its robots from the seed", () => {
  const options = readFleetOptions({ server, key, robots: "1000", fail: "50", seed: "7", failureRate: "5%", flap: true, latency: "20" });
  const { robots, fail, seed, failure_rate, flap_ms, latency_ms, name_prefix } = options;
  assert.deepEqual(
    { robots, fail, seed, failure_rate, flap_ms, latency_ms, name_prefix },
    { robots: 1000, fail: 50, seed: 7, failure_rate: 0.05, flap_ms: 60_000, latency_ms: 20, name_prefix: "sim-7" },
  );
  assert.equal(readFleetOptions({ server, key, failureRate: "0.5", flap: "5" }).failure_rate, 0.5);
  assert.equal(readFleetOptions({ server, key, flap: "5" }).flap_ms, 5_000);
  assert.equal(options.samples, undefined);
  assert.deepEqual(readFleetOptions({ server, key, series: "50" }).samples, { series: 50, interval_seconds: 10, flush_seconds: 60 });
});

test("rejects an invalid value of a swarm flag and names the flag", () => {
  for (const [flags, name] of [
    [{ key }, "--server"],
    [{ server }, "--key"],
    [{ server, key, robots: "0" }, "--robots"],
    [{ server, key, robots: "1e3" }, "--robots"],
    [{ server, key, robots: "10", fail: "11" }, "--fail"],
    [{ server, key, failureRate: "150%" }, "--failure-rate"],
    [{ server, key, flap: "now" }, "--flap"],
    [{ server, key, latency: "-1" }, "--latency"],
    [{ server, key, series: "501" }, "--series"],
    [{ server, key, label: ["zone"] }, "--label"],
    [{ server, key, caFingerprint: "sha256:1" }, "--ca-fingerprint"],
    [{ server: "http://fleet.example.com", key }, "--allow-insecure-http"],
  ] as const)
    assert.throws(
      () => readFleetOptions({ ...flags, label: "label" in flags ? [...flags.label] : [] }),
      (error: unknown) => error instanceof UsageError && error.message.includes(name),
      name,
    );
});
