import { roleAtLeast } from "@roamfleet/protocol";
import type { BodyOf, BulkOutcome, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, roleOn } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, found } from "../../kernel/fault.ts";
import { followFleet, noteAuthorityChange, robotApproved } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { type FleetPlace, requireFleet } from "../fleets/index.ts";
import { recordTimeline, recordTimelineMany } from "../timeline/index.ts";
import {
  type BulkRow,
  LABELS_MAX,
  lockRobot,
  lockRobots,
  releaseQuarantined,
  type RobotPlace,
  setApproved,
  updateRobot,
  updateRobots,
} from "./store.ts";

/** Locks a robot that is not decommissioned. Throws 404 if the org does not have the robot, and 409 if it is decommissioned. */
async function lockActive(tx: Db, org_id: string, robot_id: string): Promise<RobotPlace> {
  const robot = found(await lockRobot(tx, org_id, robot_id), "robot", robot_id);
  if (robot.decommissioned) throw conflict(`robot ${robot_id} is decommissioned`);
  return robot;
}

/**
 * Changes the name, labels or fleet of a robot. If `labels` is present, it replaces all labels of the robot. A robot that moves to a fleet
 * also moves to that fleet's site.
 */
export const changeRobot = (plane: Plane, db: Db, caller: Caller, robot_id: string, body: BodyOf<Routes["updateRobot"]>): Promise<void> =>
  db.transaction(async (tx) => {
    const { org_id } = caller;
    const { name, labels, fleet_id } = body;
    const robot = await lockActive(tx, org_id, robot_id);
    if (name === undefined && labels === undefined && fleet_id === undefined) return;
    const fleet = fleet_id === undefined ? undefined : await requireFleet(tx, org_id, fleet_id);
    await updateRobot(tx, org_id, robot_id, { name, labels, fleet }, plane.clock.now());
    await recordChanges(plane, tx, caller, [robot], fleet);
  });

/**
 * Approves a robot, so that it may get secret config values and registry logins. Dispatches its deployment targets that waited for the
 * approval.
 */
export const approveRobot = (plane: Plane, db: Db, { org_id, actor }: Caller, robot_id: string): Promise<void> =>
  db.transaction(async (tx) => {
    const { site_id, fleet_id } = await lockActive(tx, org_id, robot_id);
    if ((await setApproved(tx, org_id, robot_id, plane.clock.now())) === 0) return;
    await robotApproved(tx, plane, org_id, robot_id);
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", site_id, fleet_id });
    const summary = "The robot was approved to receive secrets";
    await recordTimeline(tx, plane, { org_id, robot_id, kind: "robot.approved", actor, summary });
  });

/** Ends a robot's quarantine. Changes nothing if the robot is not quarantined. */
export const releaseQuarantine = (plane: Plane, db: Db, { org_id, actor }: Caller, robot_id: string): Promise<void> =>
  db.transaction(async (tx) => {
    await lockActive(tx, org_id, robot_id);
    if ((await releaseQuarantined(tx, org_id, robot_id, plane.clock.now())) === 0) return;
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", status: "released" });
    await recordTimeline(tx, plane, { org_id, robot_id, kind: "robot.released", actor, summary: "The robot was unblocked" });
  });

interface Change {
  set: Record<string, string>;
  remove: readonly string[];
  fleet: FleetPlace | undefined;
}

/**
 * Changes the labels or the fleet of many robots in one transaction. Does not change a robot if the caller is not an operator for it; the
 * robot's result then states the reason. Returns one result for each distinct robot, in the order of `robot_ids`.
 */
export async function changeRobots(
  plane: Plane,
  db: Db,
  caller: Caller,
  { robot_ids, labels, fleet_id }: BodyOf<Routes["bulkUpdateRobots"]>,
): Promise<BulkOutcome[]> {
  const { org_id } = caller;
  if (labels === undefined && fleet_id === undefined) throw badRequest("one of labels, fleet_id is required");
  const ids = [...new Set(robot_ids)];
  return await db.transaction(async (tx) => {
    const fleet = fleet_id === undefined ? undefined : await requireFleet(tx, org_id, fleet_id);
    const change: Change = { set: labels?.set ?? {}, remove: labels?.remove ?? [], fleet };
    const robots = new Map((await lockRobots(tx, org_id, ids, change)).map((robot) => [robot.id, robot]));
    const outcomes = ids.map((id) => outcomeOf(caller, id, robots.get(id), change));
    const changed = outcomes.flatMap(({ robot_id, outcome }) => (outcome === "changed" ? [robots.get(robot_id) as BulkRow] : []));
    if (changed.length > 0) {
      const changed_ids = changed.map(({ id }) => id);
      await updateRobots(tx, org_id, changed_ids, change, plane.clock.now());
      await recordChanges(plane, tx, caller, changed, fleet);
    }
    return outcomes;
  });
}

function outcomeOf(caller: Caller, robot_id: string, robot: BulkRow | undefined, { fleet }: Change): BulkOutcome {
  const role = robot === undefined ? undefined : roleOn(caller, robot);
  if (robot === undefined || role === undefined) return { robot_id, outcome: "not_found", message: `robot ${robot_id} does not exist` };
  if (!roleAtLeast(role, "operator"))
    return { robot_id, outcome: "forbidden", message: `this needs the role operator; the token has ${role} for this robot` };
  if (robot.decommissioned) return { robot_id, outcome: "conflict", message: `robot ${robot_id} is decommissioned` };
  if (robot.labels_after > LABELS_MAX) {
    const message = `robot ${robot_id} would have ${robot.labels_after} labels; at most ${LABELS_MAX} are allowed`;
    return { robot_id, outcome: "conflict", message };
  }
  const leaves = fleet !== undefined && fleet.id !== robot.fleet_id;
  return { robot_id, outcome: leaves || robot.labels_change ? "changed" : "unchanged", message: null };
}

/** Publishes changes of robots. If `fleet` is given, robots that moved there also start to follow it, and get a timeline entry. */
async function recordChanges(
  plane: Plane,
  tx: Db,
  { org_id, actor }: Caller,
  robots: readonly { id: string; site_id: string; fleet_id: string }[],
  fleet: FleetPlace | undefined,
): Promise<void> {
  const moved = fleet === undefined ? [] : robots.filter(({ fleet_id }) => fleet_id !== fleet.id);
  for (const robot of robots) {
    const { id, site_id, fleet_id } = robot;
    if (!moved.includes(robot)) announce(tx, plane, org_id, { kind: "robot", id, change: "updated", site_id, fleet_id });
  }
  if (fleet === undefined || moved.length === 0) return;
  const to = { site_id: fleet.site_id, fleet_id: fleet.id };
  const ids = moved.map(({ id }) => id);
  for (const { id, site_id, fleet_id } of moved) {
    // Publish the move to users who can see the old or the new site and fleet.
    const places = [to, { site_id, fleet_id }];
    announce(tx, plane, org_id, { kind: "robot", id, change: "moved", ...to, from_fleet_id: fleet_id, from_site_id: site_id, places });
  }
  await noteAuthorityChange(tx, plane, org_id, "robot", ids);
  await followFleet(tx, plane, org_id, ids);
  const entries = moved.map(({ id, site_id, fleet_id }) => {
    const data = { from: { site_id, fleet_id }, to };
    return { org_id, robot_id: id, kind: "robot.moved", actor, summary: `The robot was moved to fleet ${fleet.name}`, data };
  });
  await recordTimelineMany(tx, plane, entries);
}
