import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { DEPLOYMENT_STATUSES, isTerminal, TARGET_STATUSES } from "@roamfleet/protocol";
import { stuckAt } from "@roamfleet/swarm/testing";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";
import { deployUntilStuck } from "./deploy-until-stuck.ts";

const AT = "2030-01-01T00:00:00Z";
const LIMIT = { timeout: 240_000 };
/** Six minutes. */
const SHORT = { deployment_expiry_hours: 0.1 };

/** Returns the rows of the table in deployment-states.md whose header starts with this text, by state. */
function table(head: string): Map<string, string[]> {
  const lines = readFileSync(path.resolve(import.meta.dirname, "../../docs/reference/deployment-states.md"), "utf8").split("\n");
  const first = lines.findIndex((line) => line.startsWith(`| ${head} |`));
  const rows = lines.slice(first + 2, lines.indexOf("", first));
  return new Map(
    rows.map((line) => {
      const [state = "", ...cells] = line.split("|").slice(1, -1);
      return [state.trim().replaceAll("`", ""), cells.map((cell) => cell.trim())];
    }),
  );
}

test("deployment-states.md names for every non-final state what ends it and when", () => {
  for (const [head, statuses] of [
    ["state of a target", TARGET_STATUSES],
    ["state of a deployment", DEPLOYMENT_STATUSES],
  ] as const) {
    const rows = table(head);
    assert.deepEqual(
      [...rows.keys()],
      statuses.filter((status) => !isTerminal(status)),
    );
    for (const [state, [who, when]] of rows) assert.ok(who && (when || who.startsWith("not built")), state);
  }
});

const statusOf = async (plane: Harness, id: string, robot_id: string) => (await plane.targets(id)).get(robot_id)?.status;

const STUCK = [
  ["downloading", 6.2],
  ["staged", 6.2],
  ["installing", 15.2],
  ["verifying", 6.2],
  ["rolling_back", 15.2],
] as const;

for (const [step, minutes] of STUCK) {
  test(`a target that is ${step} when the server restarts ends by its deadline, even if its robot is silent`, LIMIT, async () => {
    await using plane = await startPlane({ at: AT, limits: SHORT });
    const { robot, id } = await deployUntilStuck(plane, step);
    assert.equal(await statusOf(plane, id, robot.id), step);
    await plane.stop();
    await robot.disconnect();
    await plane.settle();
    await plane.restart();
    assert.equal(await statusOf(plane, id, robot.id), step);
    await plane.advance({ minutes });
    assert.ok(isTerminal((await statusOf(plane, id, robot.id)) ?? ""), step);
    await checkEngine(plane, { ended: true });
  });
}

test("scheduled, queued and cancelling deployments end in time after a server restart", LIMIT, async () => {
  await using plane = await startPlane({ at: AT, limits: SHORT });
  const [away, slow, later] = await plane.enrollRobots(3, { fleet_id: await plane.fleet() });
  assert.ok(away && slow && later);
  await away.disconnect();
  await plane.settle();
  const release = await plane.release();
  const waiting = await plane.deploy(release, { robot_id: away.id });
  slow.behave(stuckAt("downloading"), release.id);
  const called_off = await plane.deploy(release, { robot_id: slow.id });
  const scheduled = await plane.deploy(release, { robot_id: later.id }, { scheduled_at: "2030-01-01T00:03:00Z" });
  await plane.settle();
  await plane.api.cancelDeployment({ params: { id: called_off.id } });
  await plane.stop();
  await slow.disconnect();
  await plane.settle();
  await plane.restart();
  await later.connect();
  const shown = async () =>
    Promise.all(
      [waiting, called_off, scheduled].map(async ({ id }) => [(await plane.deployment(id)).status, (await plane.deployment(id)).reason]),
    );
  assert.deepEqual(await shown(), [
    ["queued", null],
    ["cancelling", "user_cancelled"],
    ["scheduled", null],
  ]);
  await plane.advance({ seconds: 70 });
  assert.deepEqual((await shown())[1], ["cancelled", "user_cancelled"]);
  await plane.advance({ minutes: 2 });
  assert.deepEqual((await shown())[2], ["applied", null]);
  await plane.advance({ minutes: 3 });
  assert.deepEqual((await shown())[0], ["cancelled", "expired"]);
  await checkEngine(plane, { ended: true });
});

test("dispatches a waiting target after the deployment before it has ended, even if the notification was lost", LIMIT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await robot.disconnect();
  await plane.settle();
  const { id } = await plane.deploy(await plane.release(), { robot_id: robot.id });
  await plane.settle();
  await plane.db.run(sql`update deployment_target set waiting_for = 'previous_deployment' where deployment_id = ${id}`);
  await robot.connect();
  await plane.advance({ seconds: 40 });
  assert.equal((await plane.deployment(id)).status, "applied");
});
