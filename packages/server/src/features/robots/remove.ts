import { CLOSE } from "@robofleet/protocol";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { notFound } from "../../kernel/fault.ts";
import { endTargetsOfRobot } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { decommissionRobot, lockRobot } from "./store.ts";

export const CLOSE_REMOVED = CLOSE.robot_removed;
export const CLOSE_REMOVED_REASON = "robot removed";
export const CLOSE_REPLACED_REASON = "another computer took this robot's place";
/** Told to every node when a robot was decommissioned, as {org_id, robot_id}. */
export const ROBOT_REMOVED = "rf.robots.removed";

/** Decommissions a robot: what is under way for it ends, its link is closed, its key opens nothing any more. Again: no change. */
export async function removeRobot(plane: Plane, db: Db, caller: Caller, robot_id: string): Promise<void> {
  const { org_id, actor } = caller;
  await db.transaction(async (tx) => {
    // Deployments before robots, as dispatch locks them.
    await endTargetsOfRobot(tx, plane, org_id, robot_id, actor);
    const robot = await lockRobot(tx, org_id, robot_id);
    if (robot === undefined) throw notFound("robot", robot_id);
    if (robot.decommissioned) return;
    await decommissionRobot(tx, org_id, robot_id, plane.clock.now());
    // What was handed to it between the two: nothing is from here on.
    await endTargetsOfRobot(tx, plane, org_id, robot_id, actor);
    await recordTimeline(tx, plane, { org_id, robot_id, kind: "robot.decommissioned", actor, summary: "The robot was decommissioned" });
    const { site_id, fleet_id } = robot;
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "removed", site_id, fleet_id });
    tx.afterCommit(() => plane.bus.publish(ROBOT_REMOVED, { org_id, robot_id }));
  });
}

/** Told to every node when another computer took a robot's place, as {robot_id}. */
const ROBOT_REPLACED = "rf.robots.replaced";

/** Ends the link of the computer that was the robot until now, once the transaction that gave another one its place is committed. */
export const endLinkOfReplaced = (plane: Pick<Plane, "bus">, tx: Db, robot_id: string): void =>
  tx.afterCommit(() => plane.bus.publish(ROBOT_REPLACED, { robot_id }));

/** Closes the links of robots that are decommissioned or replaced, wherever that happened. The answer ends it. */
export function closeRemovedRobots(plane: Pick<Plane, "bus" | "link">): () => void {
  const close = (reason: string) => (message: unknown) =>
    plane.link.session((message as { robot_id: string }).robot_id)?.close(CLOSE_REMOVED, reason);
  const unsubscribe = [
    plane.bus.subscribe(ROBOT_REMOVED, close(CLOSE_REMOVED_REASON)),
    plane.bus.subscribe(ROBOT_REPLACED, close(CLOSE_REPLACED_REASON)),
  ];
  return () => unsubscribe.forEach((end) => end());
}
