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
/** Bus subject for the notification to all nodes that a robot was decommissioned. The message is {org_id, robot_id}. */
export const ROBOT_REMOVED = "rf.robots.removed";

/**
 * Decommissions a robot: ends its open deployment targets, closes its connection and invalidates its key. A second call changes nothing.
 */
export async function removeRobot(plane: Plane, db: Db, caller: Caller, robot_id: string): Promise<void> {
  const { org_id, actor } = caller;
  await db.transaction(async (tx) => {
    // Lock deployments before the robot. Dispatch takes the locks in the same order, which prevents deadlocks.
    await endTargetsOfRobot(tx, plane, org_id, robot_id, actor);
    const robot = found(await lockRobot(tx, org_id, robot_id), "robot", robot_id);
    if (robot.decommissioned) return;
    await decommissionRobot(tx, org_id, robot_id, plane.clock.now());
    // End the deployment targets that were dispatched between the first call and the lock. A decommissioned robot gets no new ones.
    await endTargetsOfRobot(tx, plane, org_id, robot_id, actor);
    await recordTimeline(tx, plane, { org_id, robot_id, kind: "robot.decommissioned", actor, summary: "The robot was decommissioned" });
    const { site_id, fleet_id } = robot;
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "removed", site_id, fleet_id });
    tx.afterCommit(() => plane.bus.publish(ROBOT_REMOVED, { org_id, robot_id }));
  });
}

/** Bus subject for the notification to all nodes that another computer took a robot's identity. The message is {robot_id}. */
const ROBOT_REPLACED = "rf.robots.replaced";

/** After the transaction commits, closes the connection of the computer that a new one has replaced. */
export const endLinkOfReplaced = (plane: Pick<Plane, "bus">, tx: Db, robot_id: string): void =>
  tx.afterCommit(() => plane.bus.publish(ROBOT_REPLACED, { robot_id }));

/**
 * Subscribes to the bus, to close this node's connections of robots that any node decommissioned or replaced. Messages are not trusted,
 * because anyone with access to the bus can send one: looks up the named robot in the database. Returns the function that unsubscribes.
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

/** Bus subject for the notification to all nodes that an org was suspended. */
export const HINT_SUSPENDED = "rf.orgs.suspended";
/**
 * Interval of the check for robots of suspended orgs. It finds robots whose notification was lost, or which were just being admitted when
 * the notification arrived.
 */
const CHECK_EVERY_MS = 30_000;

/** Closes the connections of robots whose org is suspended. Each node closes its own connections. */
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
