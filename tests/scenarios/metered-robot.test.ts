import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { Proxy } from "../harness/proxy.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";

const KIB = 1024;
const LIMIT_KIB = 64;
const TALKS = 'echo "for people"; echo "for operators" >&2; while :; do sleep 0.1; done';
/** Bytes that compression cannot make much smaller. */
const noise = (kib: number): string => randomBytes((kib * KIB * 3) / 4).toString("base64");

test("a robot obeys the log filters and the data rate limits of its config file", { timeout: 240_000 }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "roamfleet-metered-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const [lidar, map, config] = ["lidar.log", "map.log", "agent.yaml"].map((name) => join(directory, name)) as [string, string, string];
  for (const file of [lidar, map]) writeFileSync(file, "");
  writeFileSync(
    config,
    `logs:
  files: [${lidar}, ${map}]
  filters:
    - { source: main, level: error }
    - { source: "*/lidar.log", records_per_second: 2 }
network: { download_kib_per_second: ${LIMIT_KIB}, upload_kib_per_second: ${LIMIT_KIB} }
`,
  );
  await using server = await ServerProcess.start();
  const { api } = await server.org("Metered");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using line = await Proxy.start(server.url);
  await using robot = new AgentProcess({ url: line.url, key: key ?? "", name: "cart-1", args: ["--config", config] });
  const id = await until("the robot to be online", async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id);
  const messages = async (source: string): Promise<string[]> =>
    (await api.listRobotLogs({ params: { id }, query: { source, limit: 500 } })).items.map(({ message }) => message);

  // The lower bounds of durations are exact, because no transfer can be faster than a working limit allows.
  const release = await pushBundle(api, "maps", await appBundle(TALKS, {}, [{ name: "map", content: noise(400) }]));
  const asked_at = performance.now();
  const body = { release, robot_id: id, rollout: { verify_seconds: 1 } };
  const { id: deployment } = (await api.createDeployment({ body, idempotency_key: randomUUID() })).data;
  await until("the release to run", async () => (await api.getDeployment({ params: { id: deployment } })).data.status === "applied");
  const least_ms = ((300 - LIMIT_KIB) / LIMIT_KIB) * 1_000;
  assert.ok(performance.now() - asked_at > least_ms, `at ${LIMIT_KIB} KiB a second, 300 KiB need more than ${least_ms} ms`);
  await until("the app's errors to be logged", async () => (await messages("main")).includes("for operators"));
  assert.ok(!(await messages("main")).includes("for people"));

  appendFileSync(lidar, "a scan\n".repeat(100));
  const lines = Array.from({ length: 300 }, () => noise(1));
  const sent_before = line.bytes.up;
  const written_at = performance.now();
  appendFileSync(map, `${lines.join("\n")}\n`);
  await until("every other line to arrive", async () => (await messages(map)).length === lines.length, { deadline_ms: 60_000 });
  const seconds = (performance.now() - written_at) / 1_000;
  const kib = (line.bytes.up - sent_before) / KIB;
  assert.ok(kib > 200 && kib < (seconds + 2) * LIMIT_KIB * 1.1, `${kib} KiB were sent in ${seconds} s`);
  const scans = (await messages(lidar)).length;
  // The limit of this log is a burst of 20 records, and 2 more for each second until the other log was read.
  assert.ok(scans >= 20 && scans < 20 + 2 * (seconds + 1), String(scans));
  assert.equal((await api.getRobot({ params: { id } })).data.status, "online");
  // An agent that stops reports dropped records immediately instead of after a minute.
  await robot.program.stop();
  robot.restart();
  const dropped = await until("the number of dropped records", async () => (await messages("roamfleet"))[0]);
  assert.match(dropped, new RegExp(`^${100 - scans} records of .*lidar\\.log dropped: it writes more than 2 records`));
});
