import assert from "node:assert/strict";
import { test } from "node:test";
import { APPS_MAX } from "@roamfleet/protocol/link";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };
const FULL = `the robot already has ${APPS_MAX} apps, the maximum; app extra cannot be added`;

const addApps = ({ db, default_org }: Harness, robot_id: string, count: number, from = 0) =>
  db.run(sql`
    insert into robot_app (org_id, robot_id, app, status, updated_at)
    select ${default_org.id}, ${robot_id}, 'app-' || n, 'stopped', ${AT} from generate_series(${from + 1}::int, ${from + count}::int) n`);

const endOf = async (plane: Harness, id: string, robot_id: string) => {
  const target = (await plane.targets(id)).get(robot_id);
  const { items } = await plane.api.listDeploymentEvents({ params: { id }, query: { include: "targets" } });
  const message = items.find((event) => event.robot_id === robot_id && event.kind === "target.failed")?.message;
  return [target?.status, target?.reason, message];
};

test("a fleet deployment of a new app fails only on robots that have reached their app limit", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const [full, almost, empty] = await plane.enrollRobots(3, { fleet_id });
  assert.ok(full && almost && empty);
  await addApps(plane, full.id, APPS_MAX);
  await addApps(plane, almost.id, APPS_MAX - 1);
  const release = await plane.release({ app: "extra" });
  const { id } = await plane.deploy(release, { fleet_id });
  await plane.settle();
  assert.deepEqual(await endOf(plane, id, full.id), ["failed", "incompatible", `release ${release.tag} failed: ${FULL}`]);
  assert.deepEqual([almost.runs("extra"), empty.runs("extra"), full.runs("extra")], [release.tag, release.tag, undefined]);
  assert.equal((await plane.deployment(id)).status, "failed");
  // A new release of an existing app is allowed.
  const known = await plane.deploy(await plane.release({ app: "app-1" }), { fleet_id });
  await plane.settle();
  assert.equal((await plane.targets(known.id)).get(full.id)?.status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a scheduled deployment fails on a robot that reaches its app limit before the scheduled time", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const robot = await plane.enrollRobot();
  await addApps(plane, robot.id, APPS_MAX - 1);
  const release = await plane.release({ app: "extra" });
  const { id } = await plane.deploy(release, { robot_id: robot.id }, { scheduled_at: "2030-01-01T00:01:00Z" });
  await addApps(plane, robot.id, 1, APPS_MAX);
  await plane.advance({ minutes: 2 });
  assert.deepEqual(await endOf(plane, id, robot.id), ["failed", "incompatible", `release ${release.tag} failed: ${FULL}`]);
  await checkEngine(plane, { ended: true });
});
