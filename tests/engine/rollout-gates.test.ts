import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rollout } from "@roamfleet/protocol/routes";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 240_000 };
const AT = "2030-01-01T00:00:00Z";
const at = (id: string) => ({ params: { id } });

/** Starts a plane with a fleet of connected robots, in the order of the waves, and a rule that opens an incident for an offline robot. */
async function start(count: number, severity: "critical" | "warning" = "critical") {
  const plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const robots = (await plane.enrollRobots(count, { fleet_id })).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  await plane.api.createAlertRule({
    body: { name: "Robot gone", severity, condition: { type: "robot_offline" }, for_seconds: 15, fleet_id, force: true },
  });
  return {
    plane,
    robots: robots as [SimulatedRobot, SimulatedRobot, SimulatedRobot, ...SimulatedRobot[]],
    /** Sends a sample of each robot every minute. A robot that runs the release uses `factor` times the memory. */
    async measure(minutes: number, tag: string, factor: number): Promise<void> {
      for (let i = 0; i < minutes; i += 1) {
        for (const [at_robot, robot] of robots.entries())
          robot.sendSamples({ memory_used_bytes: (1_000 * (at_robot + 1) + 10 * (i % 3)) * (robot.runs() === tag ? factor : 1) });
        await plane.advance({ minutes: 1 });
      }
    },
    async rollOut(wave: NonNullable<Rollout["waves"]>[number]): Promise<string> {
      const { id } = await plane.deploy(await plane.release(), { fleet_id }, { rollout: { waves: [wave] } });
      await plane.settle();
      return id;
    },
    [Symbol.asyncDispose]: () => plane[Symbol.asyncDispose](),
  };
}

const checksOf = async (plane: Harness, id: string) => (await plane.api.listDeploymentWaves(at(id))).items.map((wave) => wave.gate_checks);
const stateOf = async (plane: Harness, id: string) => {
  const { status, reason, wave } = await plane.deployment(id);
  return `${status} ${reason} ${wave}`;
};

test("an incident of an updated robot pauses the deployment, and a resume accepts it", TIMEOUT, async () => {
  await using it = await start(4);
  const { plane, robots } = it;
  const id = await it.rollOut({ count: 2, soak_seconds: 300, gate_incidents: "warning" });
  // The robot of the later wave opens an incident that does not concern the wave.
  await robots[3]?.disconnect();
  await plane.advance({ minutes: 1 });
  assert.deepEqual(await checksOf(plane, id), [
    [
      {
        kind: "incidents",
        state: "waiting",
        message: "no new incident of severity warning or above on updated robots of the wave",
        incident_id: null,
      },
    ],
    [],
  ]);
  await plane.restart();
  await robots[0].disconnect();
  await plane.advance({ minutes: 1 });
  await plane.restart();
  assert.equal(await stateOf(plane, id), "paused gate_failed 0");
  const [[check] = []] = await checksOf(plane, id);
  assert.equal(check?.state, "failing");
  const [event] = (await plane.api.listDeploymentEvents(at(id))).items.slice(-1);
  assert.match(
    event?.message ?? "",
    /^paused: the gate of wave 1 failed: an updated robot of the wave joined the critical incident Robot gone \(inc_/,
  );
  assert.equal(event?.data.incident_id, check?.incident_id);
  const explained = await plane.api.explainRobot({ params: { id: robots[2].id }, query: { deployment_id: id } });
  assert.match(JSON.stringify(explained), /wave 1 of 2 is open: an updated robot of the wave joined the critical incident/);
  await plane.api.resumeDeployment(at(id));
  await plane.settle();
  assert.equal(await stateOf(plane, id), "in_progress null 0", "the soak time continues");
  await robots[1].disconnect();
  await plane.advance({ minutes: 1 });
  assert.equal(await stateOf(plane, id), "paused gate_failed 0", "a further robot fails the gate again");
  await plane.api.resumeDeployment(at(id));
  await plane.advance({ minutes: 5 });
  for (const robot of robots) await robot.connect();
  await plane.advance({ minutes: 1 });
  assert.equal(await stateOf(plane, id), "applied null 1");
  await checkEngine(plane, { ended: true });
});

test("a gate ignores incidents below its severity, and those that the robot had joined before its update", TIMEOUT, async () => {
  await using it = await start(3, "warning");
  const { plane, robots } = it;
  const soak_seconds = 120;
  await robots[0].disconnect();
  await plane.advance({ minutes: 1 });
  await robots[0].connect();
  await plane.settle();
  const strict = await it.rollOut({ count: 1, soak_seconds, gate_incidents: "warning" });
  await robots[0].disconnect();
  await plane.advance({ minutes: 1 });
  await robots[0].connect();
  await plane.advance({ minutes: 2 });
  assert.equal(await stateOf(plane, strict), "applied null 1");
  const lenient = await it.rollOut({ count: 1, soak_seconds, gate_incidents: "critical" });
  await plane.advance({ minutes: 1 });
  await robots[0].disconnect();
  await plane.advance({ minutes: 2 });
  assert.match(await stateOf(plane, lenient), /null 1$/);
});

const soak_seconds = 600;
const gate_metrics = [{ name: "memory_used_bytes", aggregation: "mean" as const, rise_percent: 10 }];
const lastMessage = async (plane: Harness, id: string) => (await plane.api.listDeploymentEvents(at(id))).items.at(-1)?.message ?? "";

for (const [name, factor, end] of [
  ["stops at a release that uses 20% more memory", 1.2, "paused gate_failed 0"],
  ["passes a release that uses 5% more memory", 1.05, "applied null 1"],
] as const)
  test(`a metric gate ${name}`, TIMEOUT, async () => {
    await using it = await start(4);
    const { plane, robots } = it;
    await it.measure(10, "", 1);
    const id = await it.rollOut({ count: 2, soak_seconds, gate_metrics });
    const tag = robots[0].runs() ?? "";
    await it.measure(5, tag, 1);
    await plane.restart();
    assert.equal(await stateOf(plane, id), "in_progress null 0");
    await it.measure(7, tag, factor * factor);
    await plane.restart();
    assert.equal(await stateOf(plane, id), end);
    assert.equal((await plane.deployment(id)).counts.failed, 0, "health checks see no failure");
    if (end.startsWith("applied")) return;
    assert.match(
      await lastMessage(plane, id),
      /wave 1 failed: memory_used_bytes mean rise 10%: 2 of 2 robots outside, first rob_\w+ with \d+, \d+ before$/,
    );
    await plane.api.resumeDeployment(at(id));
    await it.measure(10, tag, factor * factor);
    assert.equal(await stateOf(plane, id), "applied null 1", "the resume accepts the rise");
    await checkEngine(plane, { ended: true });
  });

test("a metric gate waits for samples of the whole soak time", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane, robots } = it;
  await it.measure(3, "", 1);
  const id = await it.rollOut({ count: 1, soak_seconds, gate_metrics });
  await it.measure(5, "", 1);
  await plane.advance({ minutes: 15 });
  const [[check] = []] = await checksOf(plane, id);
  assert.deepEqual([await stateOf(plane, id), check?.state], ["in_progress null 0", "waiting"]);
  const explained = await plane.api.explainRobot({ params: { id: robots[1].id }, query: { deployment_id: id } });
  assert.match(JSON.stringify(explained), /it waits for data of its gate: memory_used_bytes mean rise 10%: 0 of 1 robots outside/);
  await it.measure(2, "", 1);
  assert.equal(await stateOf(plane, id), "applied null 1");
});

test("a metric gate without samples fails an hour after the soak time", TIMEOUT, async () => {
  await using it = await start(2);
  const { plane } = it;
  const id = await it.rollOut({ count: 1, soak_seconds, gate_metrics });
  await plane.advance({ minutes: 69 });
  assert.equal(await stateOf(plane, id), "in_progress null 0");
  await plane.advance({ minutes: 2 });
  assert.equal(await stateOf(plane, id), "paused gate_failed 0");
  assert.match(await lastMessage(plane, id), /samples are missing for memory_used_bytes mean rise 10%$/);
  await plane.api.resumeDeployment(at(id));
  await plane.advance({ minutes: 1 });
  assert.equal(await stateOf(plane, id), "applied null 1");
});
