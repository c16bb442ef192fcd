import { CLOSE, type JsonValue } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { isText, readHint } from "../../engines/bus/index.ts";
import { background } from "../../kernel/background.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { found } from "../../kernel/fault.ts";
import { endTargetsOfRobot } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { ORG_SUSPENDED } from "./identity.ts";
import { findLinkState, listOnlineOfSuspended } from "./store-presence.ts";
import { decommissionRobot, lockRobot } from "./store.ts";

export const CLOSE_REMOVED = CLOSE.robot_removed;
export const CLOSE_REMOVED_REASON = "robot removed";
export const CLOSE_REPLACED_REASON = "the robot was replaced by another computer";
/** Published to all nodes, as {org_id, robot_id}, when a robot was decommissioned. */
export const ROBOT_REMOVED = "rf.robots.removed";

/** Decommissions a robot: ends its open targets, closes its link and invalidates its key. A second call changes nothing. */
export async function removeRobot(plane: Plane, db: Db, caller: Caller, robot_id: string): Promise<void> {
  const { org_id, actor } = caller;
  await db.transaction(async (tx) => {
    // Lock deployments before robots, in the same order as dispatch does.
    await endTargetsOfRobot(tx, plane, org_id, robot_id, actor);
    const robot = found(await lockRobot(tx, org_id, robot_id), "robot", robot_id);
    if (robot.decommissioned) return;
    await decommissionRobot(tx, org_id, robot_id, plane.clock.now());
    // End targets that were dispatched after the first call. A decommissioned robot gets no new ones.
    await endTargetsOfRobot(tx, plane, org_id, robot_id, actor);
    await recordTimeline(tx, plane, { org_id, robot_id, kind: "robot.decommissioned", actor, summary: "The robot was decommissioned" });
    const { site_id, fleet_id } = robot;
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "removed", site_id, fleet_id });
    tx.afterCommit(() => plane.bus.publish(ROBOT_REMOVED, { org_id, robot_id }));
  });
}

/** Published to all nodes, as {robot_id}, when another computer took a robot's identity. */
const ROBOT_REPLACED = "rf.robots.replaced";

/** Closes the link of a robot's replaced computer after the transaction commits. */
export const endLinkOfReplaced = (plane: Pick<Plane, "bus">, tx: Db, robot_id: string): void =>
  tx.afterCommit(() => plane.bus.publish(ROBOT_REPLACED, { robot_id }));

/**
 * Starts to close this node's links of robots that are decommissioned or replaced through any node. Does not trust messages, because anyone
 * with access to the bus could send one: looks up the named robot in the database. Returns the function that unsubscribes.
 */
export function closeRemovedRobots(plane: Pick<Plane, "bus" | "link" | "db">): () => void {
  const check = async (message: JsonValue): Promise<void> => {
    const session = plane.link.session(readHint<{ robot_id: string }>(message, { robot_id: isText }).robot_id);
    if (session === undefined) return;
    const { org_id, robot_id } = session;
    const state = await findLinkState(plane.db, org_id, robot_id);
    if (state === "removed") session.close(CLOSE_REMOVED, CLOSE_REMOVED_REASON);
    if (state === "replaced") session.close(CLOSE_REMOVED, CLOSE_REPLACED_REASON);
  };
  const unsubscribe = [plane.bus.subscribe(ROBOT_REMOVED, check), plane.bus.subscribe(ROBOT_REPLACED, check)];
  return () => unsubscribe.forEach((end) => end());
}

/** Published to all nodes when an org was suspended. */
export const HINT_SUSPENDED = "rf.orgs.suspended";
/** Interval of the check, which finds suspended orgs after a lost hint, and robots that were being admitted during the hint. */
const CHECK_EVERY_MS = 30_000;

/** Closes the links of robots whose org is suspended. Each node handles its own links. */
export function startSuspensionWatch(plane: Plane): { stop(): Promise<void> } {
  const watch = background(plane, "suspended orgs", CHECK_EVERY_MS, async () => {
    for (const { id } of await listOnlineOfSuspended(plane.db, plane.node)) plane.link.session(id)?.close(CLOSE.role_lost, ORG_SUSPENDED);
  });
  const subscriptions = [plane.bus.subscribe(HINT_SUSPENDED, () => watch.wake()), plane.bus.onGap(() => watch.wake())];
  return {
    stop: async () => {
      subscriptions.forEach((unsubscribe) => unsubscribe());
      await watch.stop();
    },
  };
}
