import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonValue } from "@roamfleet/protocol";
import { until } from "@roamfleet/clock/testing";
import { sql } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, newIdentity, signedHello } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { closeRemovedRobots, robotRoutes } from "./index.ts";

const FORGED: [subject: string, message: (robot_id: string, org_id: string) => JsonValue][] = [
  ["rf.robots.removed", (robot_id, org_id) => ({ org_id, robot_id })],
  ["rf.robots.replaced", (robot_id) => ({ robot_id })],
  ["rf.robots.removed", () => null],
  ["rf.robots.removed", () => "text"],
  ["rf.robots.removed", () => ({ robot_id: { deep: [1] } })],
  ["rf.robots.replaced", () => [1, 2]],
];

test("forged bus messages do not close the link of a robot that is not removed", { timeout: 120_000 }, async () => {
  const sessions = new Map<string, Session>();
  await using rig = await startFeaturePlane([robotRoutes], { sessions });
  const { plane } = rig;
  const { org_id } = await rig.org();
  const unwatch = closeRemovedRobots(plane);
  const robot_ids: string[] = [];
  for (const name of ["kept", "removed"]) {
    const { robot_id } = await seedRobot(plane, org_id);
    robot_ids.push(robot_id);
    sessions.set(robot_id, fakeSession(`sess_${name}`, org_id, signedHello(newIdentity(), robot_id, "nonce")));
    await plane.db.run(sql`
      update robot set node_id = ${plane.node.id}, node_epoch = ${plane.node.epoch}, session_id = ${`sess_${name}`}
      where org_id = ${org_id} and id = ${robot_id}`);
  }
  const [kept = "", removed = ""] = robot_ids;
  const closed = (id: string) => (sessions.get(id) as ReturnType<typeof fakeSession>).closed;
  for (const [subject, message] of FORGED) plane.bus.publish(subject, message(kept, org_id));
  // Sent after the forged ones: when this robot's link is closed, those have been handled.
  await plane.db.run(sql`update robot set decommissioned_at = ${rig.clock.now()} where org_id = ${org_id} and id = ${removed}`);
  plane.bus.publish("rf.robots.removed", { org_id, robot_id: removed });
  await until("the link of the removed robot to be closed", () => closed(removed));
  assert.equal(closed(kept), undefined);
  unwatch();
});
