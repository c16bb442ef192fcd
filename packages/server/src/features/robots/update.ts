import type { BodyOf, Routes } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import { followFleet } from "../deployments/index.ts";
import { requireFleet } from "../fleets/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { lockRobot, updateRobot } from "./store.ts";

/** Renames, relabels (the set given replaces the old one) or moves a robot; with the fleet it changes the site. */
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
    if (fleet === undefined || fleet.id === robot.fleet_id) return;
    await followFleet(tx, plane, org_id, [robot_id]);
    await recordTimeline(tx, plane, {
      org_id,
      robot_id,
      kind: "robot.moved",
      actor,
      summary: `The robot was moved to fleet ${fleet.name}`,
      data: { from: { site_id: robot.site_id, fleet_id: robot.fleet_id }, to: { site_id: fleet.site_id, fleet_id: fleet.id } },
    });
  });
}
