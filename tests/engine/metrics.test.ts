import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { decodeChunk } from "@roamfleet/protocol/link";
import { ROBOT_CONFIG_DEFAULT } from "../../packages/agent/src/config-file/robot-config.ts";
import { askAgent } from "../../packages/agent/src/local/client.ts";
import { bytea, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const TIMEOUT = { timeout: 180_000 };
const AT = "2030-01-01T00:00:00Z";
const chunkRow = row({ chunk: bytea });
const metrics = { ...ROBOT_CONFIG_DEFAULT.metrics, flush_seconds: 60 };

/** Returns the times of all stored samples of a metric, sorted. */
async function storedTimes(plane: Harness, robot_id: string, metric: string): Promise<number[]> {
  const chunks = await plane.db.many(sql(chunkRow)`select chunk from metric_chunk where robot_id = ${robot_id}`);
  const series = chunks.flatMap(({ chunk }) => decodeChunk(chunk)).filter(({ name }) => name === metric);
  return series.flatMap(({ times }) => times).toSorted((a, b) => a - b);
}

const spooled = (robot: LiveRobot): number => readdirSync(path.join(robot.state_directory, "metrics")).length;

const startRobot = (plane: Harness): Promise<LiveRobot> =>
  LiveRobot.start(plane, { clock: plane.clock, activity: plane.activity, robot: { metrics } });

test("the API returns a robot's samples after its next flush", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  await using robot = await startRobot(plane);
  await plane.advance({ seconds: 125 });
  const { data } = await plane.api.getRobotMetrics({
    params: { id: robot.id },
    query: { names: "memory_used_bytes,cpu_percent", points: 1 },
  });
  assert.deepEqual(
    data.series.map(({ name }) => name),
    ["cpu_percent", "memory_used_bytes"],
  );
  const [used] = data.series[1]?.mean ?? [];
  assert.ok((used ?? 0) > 1024 * 1024, `${used} bytes`);
  assert.equal(data.step_seconds, 3_600);
  assert.equal(spooled(robot), 0, "what the server stored is no longer on the robot");
});

test("the API returns metrics of programs, and why samples of them were dropped", TIMEOUT, async (t) => {
  const service = createServer((_, response) => response.end('picks_total{arm="left"} 7\nempty NaN\n'));
  await once(service.listen(0, "127.0.0.1"), "listening");
  t.after(() => service.close());
  const { port } = service.address() as AddressInfo;
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-socket-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const socket = path.join(directory, "agent.sock");
  const address = { instance: "picker:1", host: "127.0.0.1", port, path: "/metrics" };
  const robot_config = { metrics: { ...metrics, scrape: [{ address, labels: {} }] } };
  await using plane = await startPlane({ at: AT });
  await using robot = await LiveRobot.start(plane, {
    clock: plane.clock,
    activity: plane.activity,
    robot: robot_config,
    config: { local_api: { socket } },
  });
  for (let i = 0; i < 12; i += 1) {
    await askAgent(socket, "POST", "/v1/samples", [
      { name: "pallet_kilograms", value: 412.5 },
      { name: "bad.name", value: 1 },
    ]);
    await plane.advance({ seconds: 10 });
  }
  const names = "picks_total,pallet_kilograms,scrape_up,samples_dropped,empty,bad_name";
  const { data } = await plane.api.getRobotMetrics({ params: { id: robot.id }, query: { names, points: 1 } });
  assert.deepEqual(
    data.series.map(({ name, labels, min }) => [name, Object.entries(labels).flat().join(" "), min[0]]),
    [
      ["pallet_kilograms", "", 412.5],
      ["picks_total", "arm left instance picker:1", 7],
      ["samples_dropped", "instance picker:1 reason value", 1],
      ["samples_dropped", "reason name source socket", 1],
      ["scrape_up", "instance picker:1", 1],
    ],
  );
});

test("each sample of a long outage is stored once, although the agent was restarted in it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  await using robot = await startRobot(plane);
  await plane.advance({ seconds: 65 });
  const id = robot.id;
  robot.line.refuse(true);
  robot.line.reset();
  await plane.advance({ minutes: 10 });
  await robot.stop();
  assert.ok(spooled(robot) >= 10);
  robot.line.refuse(false);
  await robot.start();
  await plane.advance({ minutes: 3 });
  const times = await storedTimes(plane, id, "memory_used_bytes");
  const steps = times.slice(1).map((time, i) => time - (times[i] ?? 0));
  assert.equal(new Set(times).size, times.length, "no sample is stored twice");
  assert.ok(
    steps.every((step) => step <= 20_000),
    `no sample is missing, except at the restart: ${steps.join(" ")}`,
  );
  assert.ok(times.length >= 80, `${times.length} samples`);
  assert.equal(spooled(robot) <= 1, true);
});
