import type { BodyOf, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import { followFleet, noteAuthorityChange } from "../deployments/index.ts";
import { announce, type AnnouncedChange } from "../events/index.ts";
import { requireFleet } from "../fleets/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { lockRobot, updateRobot } from "./store.ts";

/** Renames, relabels (the given set replaces the old one) or moves a robot. A move to a fleet also changes the site. */
export async function changeRobot(
  plane: Plane,
  db: Db,
  caller: Caller,
  robot_id: string,
  body: BodyOf<Routes["updateRobot"]>,
): Promise<void> {
  const { org_id, actor } = caller;
  const { name, labels, fleet_id } = body;
  await db.transaction(async (tx) => {
    const robot = await lockRobot(tx, org_id, robot_id);
    if (robot === undefined) throw notFound("robot", robot_id);
    if (robot.decommissioned) throw conflict(`robot ${robot_id} is decommissioned`);
    if (name === undefined && labels === undefined && fleet_id === undefined) return;
    const fleet = fleet_id === undefined ? undefined : await requireFleet(tx, org_id, fleet_id);
    const place = fleet === undefined ? undefined : { site_id: fleet.site_id, fleet_id: fleet.id };
    await updateRobot(tx, org_id, robot_id, { name, labels, place }, plane.clock.now());
    const from = { site_id: robot.site_id, fleet_id: robot.fleet_id };
    if (place === undefined || fleet === undefined || fleet.id === robot.fleet_id) {
      announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", ...from });
      return;
    }
    announce(tx, plane, org_id, moved(robot_id, from, place));
    await noteAuthorityChange(tx, plane, org_id, "robot", [robot_id]);
    await followFleet(tx, plane, org_id, [robot_id]);
    await recordTimeline(tx, plane, {
      org_id,
      robot_id,
      kind: "robot.moved",
      actor,
      summary: `The robot was moved to fleet ${fleet.name}`,
      data: { from, to: place },
    });
  });
}

type RobotAt = { site_id: string; fleet_id: string };

/** A move, published to those who see the old place and those who see the new one. */
export const moved = (robot_id: string, from: RobotAt, to: RobotAt): AnnouncedChange => ({
  kind: "robot",
  id: robot_id,
  change: "moved",
  ...to,
  from_fleet_id: from.fleet_id,
  from_site_id: from.site_id,
  places: [to, from],
});
