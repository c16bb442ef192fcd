import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../../kernel/sql.ts";
import { systemClock } from "@roamfleet/clock";
import { probeRead, probeWrite } from "../probe.ts";
import { PrometheusProcess, SKIP_WITHOUT_PROMETHEUS } from "../testing/prometheus.ts";
import { seriesFrom } from "../testing/series-from.ts";
import { startWritePlane } from "../testing/write-plane.ts";

const OPTIONS = { timeout: 180_000, ...SKIP_WITHOUT_PROMETHEUS };
const MINUTE_MS = 60_000;

test("Prometheus stores each sample with labels of its org, site, fleet and robot", OPTIONS, async () => {
  await using prometheus = await PrometheusProcess.start();
  await using it = await startWritePlane({ write: { url: prometheus.write_url, token: undefined } });
  const { org_id } = await it.org();
  const robot_id = await it.robot(org_id);
  const now = it.clock.now().getTime();
  const disk = seriesFrom(now - MINUTE_MS, 6, {
    name: "disk_used_bytes",
    labels: { mount: '/a "b"\\ü', org_id: "org_forged", job: "node", __name__: "up" },
  });
  const mixed = { ...seriesFrom(now - MINUTE_MS, 4), times: [now, now - 1_000, now, now - 2_000], values: [1, 2, 3, 1e-9] };
  await it.store(org_id, robot_id, [disk, mixed]);
  it.start();
  await it.sent();
  const [cpu] = await prometheus.samples(`cpu_percent{robot_id="${robot_id}"}`, it.clock.now());
  const [stored] = await prometheus.samples(`disk_used_bytes{robot_id="${robot_id}"}`, it.clock.now());
  assert.deepEqual(cpu?.samples, [
    [now - 2_000, 1e-9],
    [now - 1_000, 2],
    [now, 3],
  ]);
  const { site_id, fleet_id, ...labels } = stored?.labels ?? {};
  assert.match(`${site_id} ${fleet_id}`, /^site_\w+ fleet_\w+$/);
  assert.deepEqual(labels, {
    __name__: "disk_used_bytes",
    job: "roamfleet_robots",
    org_id,
    robot_id,
    robot: robot_id,
    mount: '/a "b"\\ü',
    exported_org_id: "org_forged",
    exported_job: "node",
    exported___name__: "up",
  });
  assert.deepEqual(
    stored?.samples,
    disk.times.map((time, i) => [time, disk.values[i]]),
  );
  assert.equal(await it.counter("samples_total"), 10);
  assert.equal(await it.counter("samples_refused_total"), 0);
});

test("samples that are sent again, after newer ones, change nothing", OPTIONS, async () => {
  await using prometheus = await PrometheusProcess.start();
  await using it = await startWritePlane({ write: { url: prometheus.write_url, token: undefined } });
  const { org_id } = await it.org();
  const robot_id = await it.robot(org_id);
  const from = it.clock.now().getTime() - 30 * MINUTE_MS;
  for (let minute = 0; minute < 30; minute += 1) await it.store(org_id, robot_id, [seriesFrom(from + minute * MINUTE_MS, 6)]);
  it.start();
  await it.sent();
  const samples = async () => (await prometheus.samples(`{robot_id="${robot_id}"}`, it.clock.now()))[0]?.samples;
  const before = await samples();
  assert.equal(before?.length, 180);
  await it.plane.db.run(sql`
    update metric_position set sent_number = 5, queued_at = ${it.clock.now()}, unsent_from = ${new Date(from)} where org_id = ${org_id}`);
  await it.sent();
  assert.deepEqual(await samples(), before);
  assert.equal(await it.counter("samples_total"), 180 + 150);
});

test("without out_of_order_time_window, only the late chunks of a robot are refused, and counted", OPTIONS, async () => {
  await using prometheus = await PrometheusProcess.start({ out_of_order_time_window: "0s" });
  await using it = await startWritePlane({ write: { url: prometheus.write_url, token: undefined } });
  const { org_id } = await it.org();
  const [late, other] = [await it.robot(org_id), await it.robot(org_id)];
  const now = it.clock.now().getTime();
  await it.store(org_id, late, [seriesFrom(now - MINUTE_MS, 6)]);
  await it.store(org_id, late, [seriesFrom(now - 10 * MINUTE_MS, 6)]);
  await it.store(org_id, late, [seriesFrom(now, 6)]);
  for (let minute = 0; minute < 5; minute += 1) await it.store(org_id, other, [seriesFrom(now + (minute - 5) * MINUTE_MS, 6)]);
  it.start();
  await it.sent();
  const count = async (robot_id: string) =>
    (await prometheus.samples(`{robot_id="${robot_id}"}`, new Date(now + MINUTE_MS)))[0]?.samples.length;
  assert.deepEqual([await count(late), await count(other)], [12, 30]);
  assert.deepEqual([await it.counter("samples_total"), await it.counter("samples_refused_total")], [42, 6]);
});

test("two nodes send each chunk once, and robots of all shards", OPTIONS, async () => {
  await using prometheus = await PrometheusProcess.start();
  await using it = await startWritePlane({ write: { url: prometheus.write_url, token: undefined } });
  const { org_id } = await it.org();
  const robots: string[] = [];
  for (let i = 0; i < 40; i += 1) robots.push(await it.robot(org_id));
  const from = it.clock.now().getTime() - 20 * MINUTE_MS;
  for (const robot_id of robots)
    for (let minute = 0; minute < 20; minute += 1) await it.store(org_id, robot_id, [seriesFrom(from + minute * MINUTE_MS, 6)]);
  it.start();
  it.start();
  await it.sent();
  assert.equal(await it.counter("samples_total"), 40 * 120);
  const found = await prometheus.samples("cpu_percent", it.clock.now());
  assert.deepEqual(new Set(found.map(({ samples }) => samples.length)), new Set([120]));
  assert.equal(found.length, 40);
});

test("Prometheus accepts the requests with which doctor checks it", OPTIONS, async () => {
  await using prometheus = await PrometheusProcess.start();
  const context = { clock: systemClock, timeout_ms: 10_000, signal: new AbortController().signal };
  assert.equal(await probeWrite(context, { url: prometheus.write_url, token: undefined }), 204);
  assert.equal(await probeRead(context, { url: prometheus.url, token: undefined }), 200);
  assert.equal(await probeWrite(context, { url: `${prometheus.url}/elsewhere`, token: undefined }), 404);
});
