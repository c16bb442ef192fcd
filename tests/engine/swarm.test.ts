import assert from "node:assert/strict";
import { test } from "node:test";
import { EnrollmentFailed, SimulatedRobot, startSwarm } from "@roamfleet/swarm/testing";
import { startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 120_000 };
const COUNT = 60;

test("simulated robots enroll, send health, deploy, and reconnect automatically after a server restart", TIMEOUT, async () => {
  await using plane = await startPlane();
  const fleet_id = await plane.homeFleet();
  const running = await startSwarm({
    url: plane.url,
    key: await plane.enrollmentKey(),
    count: COUNT,
    name_prefix: "bench",
    health_ms: 200,
  });
  try {
    const online = async () => (await plane.api.getFleet({ params: { id: fleet_id } })).data.online_count === COUNT;
    await plane.until("all robots are online", online);
    const first = running.robots[0]?.id ?? "";
    await plane.until("a health snapshot", async () => (await plane.api.request("GET", `/api/robots/${first}/health`)).status === 200);
    await plane.restart();
    await plane.until("all robots are online again", online);
    const { id } = await plane.deploy(await plane.release(), { fleet_id });
    await plane.until("the deployment is applied", async () => (await plane.deployment(id)).counts.applied === COUNT);
    await checkEngine(plane, { ended: true });
  } finally {
    await running.stop();
  }
  await plane.until(
    "all robots to be offline",
    async () => (await plane.api.getFleet({ params: { id: fleet_id } })).data.online_count === 0,
  );
});

test("refuses a robot with an unknown key, and accepts logs and signed requests of an enrolled robot", TIMEOUT, async () => {
  await using plane = await startPlane();
  await assert.rejects(
    SimulatedRobot.enroll(plane.swarm, { key: `rf_enroll_${"0".repeat(64)}` }),
    (error: unknown) => error instanceof EnrollmentFailed && error.status === 401,
  );
  const robot = await plane.enrollRobot();
  robot.log("hello from the robot", { level: "warn", source: "camera" });
  const [record] = await plane.until("the log record", async () => {
    const { items } = await plane.api.listRobotLogs({ params: { id: robot.id } });
    return items.length > 0 && items;
  });
  assert.deepEqual([record?.message, record?.level, record?.source], ["hello from the robot", "warn", "camera"]);
  const release = await plane.release({ bytes: "the very bytes" });
  const before = await robot.get(`/agent/artifacts/${release.artifact_sha256}`);
  assert.equal(before.status, 404, "a robot may download only its own releases");
  await before.body?.cancel();
  const { id } = await plane.deploy(release, { robot_id: robot.id });
  await plane.until("the deployment is applied", async () => (await plane.deployment(id)).status === "applied");
  assert.equal(await (await robot.get(`/agent/artifacts/${release.artifact_sha256}`)).text(), "the very bytes");
});
