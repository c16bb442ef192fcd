import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import { isTerminal } from "@roamfleet/protocol";
import { ApiError } from "@roamfleet/sdk";
import type { Behavior, RobotStep, SimulatedRobot } from "@roamfleet/swarm/testing";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const ACTIONS = 40;
/** 12 minutes. */
const EXPIRY = { deployment_expiry_hours: 0.2 };

class Chance {
  readonly next: () => number;
  constructor(seed: number) {
    this.next = seededRandom(seed);
  }
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }
  of<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("the list is empty");
    return item;
  }
}

function anyBehavior(chance: Chance): Behavior {
  const ms = chance.of([0, 0, 1_000, 20_000, 90_000]);
  const step_ms = { downloading: ms, staged: chance.of([0, 5_000]), installing: ms / 2, verifying: ms, rolling_back: ms / 2 };
  const step = chance.of<Exclude<RobotStep, "rolling_back">>(["downloading", "staged", "installing", "verifying"]);
  return chance.of<Behavior>([
    { step_ms },
    { step_ms },
    { step_ms, failure: { at: step, reason: chance.of(["download_failed", "crash_loop", "insufficient_disk"]) } },
    { step_ms, failure: { at: "verifying", reason: "health_check_failed" }, rollback_fails: true },
    { step_ms, offline_at: step },
    { step_ms, stuck_at: step },
    { ignores: true },
  ]);
}

interface Scene {
  plane: Harness;
  chance: Chance;
  robots: SimulatedRobot[];
  fleets: string[];
  releases: Awaited<ReturnType<Harness["release"]>>[];
  deployments: string[];
}

const actions: ((scene: Scene) => Promise<unknown>)[] = [
  async ({ plane, chance, fleets, releases, deployments }) =>
    deployments.push((await plane.deploy(chance.of(releases), { fleet_id: chance.of(fleets) })).id),
  async ({ plane, chance, robots, releases, deployments }) =>
    deployments.push((await plane.deploy(chance.of(releases), { robot_id: chance.of(robots).id })).id),
  async ({ plane, chance, fleets, releases, deployments }) =>
    deployments.push(
      (
        await plane.deploy(
          chance.of(releases),
          { fleet_id: chance.of(fleets) },
          { scheduled_at: new Date(plane.clock.now().getTime() + chance.below(180_000)).toISOString() },
        )
      ).id,
    ),
  async ({ plane, chance, fleets }) => plane.deployConfig({ fleet_id: chance.of(fleets) }),
  async ({ plane, chance }) => plane.api.setConfig({ body: { key: chance.of(["a", "b"]), value: chance.below(3) } }),
  async ({ plane, chance, deployments }) => {
    if (deployments.length === 0) return;
    await plane.api
      .cancelDeployment({ params: { id: chance.of(deployments) } })
      .catch((error: unknown) => assert.ok(error instanceof ApiError && error.status === 409, String(error)));
  },
  async ({ plane, chance, deployments }) => {
    if (deployments.length === 0) return;
    const id = chance.of(deployments);
    const asked = chance.of([
      () => plane.api.rollBackDeployment({ params: { id } }),
      () => plane.api.retryDeployment({ params: { id }, body: {} }),
      () => plane.api.cancelDeployment({ params: { id }, body: { mode: "rollback" } }),
    ])();
    await asked.then(
      ({ data }) => deployments.includes(data.id) || deployments.push(data.id),
      (error: unknown) => assert.ok(error instanceof ApiError && error.status === 409, String(error)),
    );
  },
  async ({ plane, chance, robots, fleets }) =>
    plane.api.updateRobot({ params: { id: chance.of(robots).id }, body: { fleet_id: chance.of(fleets) } }),
  async ({ chance, robots }) => chance.of(robots).behave(anyBehavior(chance)),
  async ({ chance, robots }) => chance.of(robots).disconnect(),
  async ({ chance, robots }) => chance.of(robots).connect(),
  async ({ chance, robots }) => chance.of(robots).restart(),
  async ({ plane }) => plane.restart(),
  async ({ plane, chance }) => plane.advance({ seconds: chance.of([1, 5, 30, 130]) }),
  async ({ plane, chance }) => plane.advance({ seconds: chance.of([1, 5, 30, 130]) }),
];

for (const seed of [1, 2, 3]) {
  test(`all deployments end with correct counters after random events in random order (seed ${seed})`, { timeout: 240_000 }, async () => {
    await using plane = await startPlane({ at: AT, limits: EXPIRY });
    const chance = new Chance(seed);
    const fleets = [await plane.fleet(), await plane.fleet()];
    const robots = (await Promise.all(fleets.map((fleet_id) => plane.enrollRobots(5, { fleet_id })))).flat();
    const releases = [
      await plane.release(),
      await plane.release(),
      await plane.release(),
      await plane.release({ app: "camera" }),
      await plane.release({ kind: "container_image" }),
    ];
    const scene: Scene = { plane, chance, robots, fleets, releases, deployments: [] };
    for (let done = 0; done < ACTIONS; done += 1) {
      await chance.of(actions)(scene);
      // In half of the cases, trigger the next event before the present event is processed.
      if (chance.next() < 0.5) await plane.settle();
      await checkEngine(plane);
    }
    await plane.advance({ minutes: 45 });
    await checkEngine(plane, { ended: true });
    for (const robot of robots) {
      // Stuck robots continue after a restart, like an agent.
      robot.behave({});
      await robot.restart();
    }
    await plane.advance({ minutes: 5 });
    await checkEngine(plane, { ended: true });
    for (const robot of robots) await agrees(plane, robot);
    for (const id of scene.deployments) assert.ok(isTerminal((await plane.deployment(id)).status));
  });
}

/** Fails unless the plane shows the releases that the robot runs. */
async function agrees(plane: Harness, robot: SimulatedRobot): Promise<void> {
  const shown = (await plane.api.getRobot({ params: { id: robot.id } })).data;
  for (const { app, current } of shown.apps) assert.equal(current?.tag, robot.runs(app), `${app} of ${robot.id}`);
}
