import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { idleActivity, SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";
import type { ScrapeTarget } from "../contract.ts";
import { shellRelease, WELL } from "../testing/bundles.ts";
import { collectSamples } from "../testing/collected-samples.ts";
import { DeploymentsRig } from "../testing/deployments-rig.ts";
import { WorkloadMetrics } from "./workload-metrics.ts";

const LIMIT = { timeout: 120_000 };

test("collects the metrics of an app at the port that its manifest names, until it is removed", LIMIT, async () => {
  const port = await freePort("127.0.0.1");
  await using rig = await DeploymentsRig.start();
  const program = `require("http").createServer((request, response) => response.end("orders_total 3\\n" + "path" + request.url.length + " 1\\n")).listen(${port}, "127.0.0.1")`;
  const serving = await shellRelease("one", `exec node --eval '${program}'`, { metrics: { port, path: "/m" } });
  await rig.ended(rig.deploy(serving));
  assert.deepEqual(rig.deployments.scrape_targets?.(), [{ app: "main", url: `http://127.0.0.1:${port}/m` }]);
  const collected = collectSamples();
  const metrics = new WorkloadMetrics({
    config: { interval_seconds: 1, scrape: [] },
    apps: () => rig.deployments.scrape_targets?.() ?? [],
    collector: collected.collector,
    clock: systemClock,
    activity: idleActivity,
    log: collected.log,
  });
  metrics.start();
  await until("a sample", () => metrics.values().some(({ name, value }) => name === "scrape_up" && value === 1));
  assert.deepEqual(
    collected.taken().map(({ name, labels, values: [value] }) => [name, labels, value]),
    [
      ["orders_total", { app: "main" }, 3],
      ["path2", { app: "main" }, 1],
    ],
  );
  await rig.ended(rig.deploy(await shellRelease("two", WELL)));
  assert.deepEqual(rig.deployments.scrape_targets?.(), []);
  await until("the target to be forgotten", () => metrics.values().length === 0);
  metrics.stop();
});

test("each target has its own interval, and reports whether it answers", LIMIT, async (t) => {
  let requests = 0;
  const server = createServer((_, response) => response.end(`count ${(requests += 1)}\nbad.name 1\n`));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const collected = collectSamples(clock);
  let apps: ScrapeTarget[] = [{ app: "gone", url: `http://127.0.0.1:${await freePort("127.0.0.1")}/m` }];
  const metrics = new WorkloadMetrics({
    config: {
      interval_seconds: 10,
      scrape: [
        { address: { instance: "a:1", host: "127.0.0.1", port, path: "/" }, labels: { part: "arm" }, interval_seconds: 30 },
        { address: { instance: "b:1", host: "127.0.0.1", port, path: "/" }, labels: { instance: "other" } },
      ],
    },
    apps: () => apps,
    collector: collected.collector,
    clock,
    activity: idleActivity,
    log: collected.log,
  });
  metrics.start();
  const shown = () => metrics.values().map(({ name, labels, value }) => [name, Object.values(labels).join(" "), value]);
  assert.deepEqual(shown(), []);
  const counts = { a: 0, b: 0 };
  for (let i = 1; i <= 3; i += 1) {
    await clock.advance({ seconds: 10 });
    const expected = i === 3 ? 4 : i;
    await until("the responses", () => metrics.values().length >= (i === 3 ? 5 : 3) && requests === expected);
    await until("the samples", () => {
      for (const { labels, values } of collected.taken()) counts[labels["part"] === "arm" ? "a" : "b"] += values.length;
      return counts.a + counts.b === expected;
    });
  }
  assert.deepEqual(counts, { a: 1, b: 3 });
  await until("the last request to end", () => shown().length === 5);
  assert.deepEqual(shown(), [
    ["scrape_up", "a:1 arm", 1],
    ["samples_dropped", "a:1 arm name", 1],
    ["scrape_up", "other", 1],
    ["samples_dropped", "other name", 3],
    ["scrape_up", "gone", 0],
  ]);
  apps = [];
  await clock.advance({ seconds: 10 });
  assert.equal(shown().length, 4);
  metrics.stop();
});
