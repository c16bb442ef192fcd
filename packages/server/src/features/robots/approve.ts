import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import { robotApproved } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { lockRobot, setApproved } from "./store.ts";

/**
 * Approves a robot: from now on it gets secret config values and registry logins, and targets that waited for the approval are dispatched.
 */
export const approveRobot = (plane: Plane, db: Db, { org_id, actor }: Caller, robot_id: string): Promise<void> =>
  db.transaction(async (tx) => {
    const robot = await lockRobot(tx, org_id, robot_id);
    if (robot === undefined) throw notFound("robot", robot_id);
    if (robot.decommissioned) throw conflict(`robot ${robot_id} is decommissioned`);
    if ((await setApproved(tx, org_id, robot_id, plane.clock.now())) === 0) return;
    await robotApproved(tx, plane, org_id, robot_id);
    const { site_id, fleet_id } = robot;
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", site_id, fleet_id });
    await recordTimeline(tx, plane, {
      org_id,
      robot_id,
      kind: "robot.approved",
      actor,
      summary: "The robot was approved and receives secrets",
    });
  });
