import type { BodyOf, BulkOutcome, Routes } from "@roamfleet/protocol/routes";
import { roleAtLeast } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { type Caller, roleOn } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest } from "../../kernel/fault.ts";
import { followFleet, noteAuthorityChange } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { type FleetPlace, requireFleet } from "../fleets/index.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { type BulkRow, LABELS_MAX, lockRobots, updateRobots } from "./store-bulk.ts";
import { moved } from "./update.ts";

type Bulk = BodyOf<Routes["bulkUpdateRobots"]>;
interface Change {
  set: Record<string, string>;
  remove: readonly string[];
  fleet: FleetPlace | undefined;
}

/**
 * Labels or moves each of the robots for which the caller is an operator, in one transaction. The others stay as they are, and the result
 * states why. Results are in the order of `robot_ids`, each robot once.
 */
export async function changeRobots(plane: Plane, db: Db, caller: Caller, { robot_ids, labels, fleet_id }: Bulk): Promise<BulkOutcome[]> {
  const { org_id } = caller;
  if (labels === undefined && fleet_id === undefined) throw badRequest("one of labels, fleet_id is required");
  const ids = [...new Set(robot_ids)];
  return await db.transaction(async (tx) => {
    const fleet = fleet_id === undefined ? undefined : await requireFleet(tx, org_id, fleet_id);
    const change: Change = { set: labels?.set ?? {}, remove: labels?.remove ?? [], fleet };
    const robots = new Map((await lockRobots(tx, org_id, ids, change)).map((robot) => [robot.id, robot]));
    const outcomes = ids.map((id) => outcomeOf(caller, id, robots.get(id), change));
    const changed = outcomes.flatMap(({ robot_id, outcome }) => (outcome === "changed" ? [robot_id] : []));
    if (changed.length > 0)
      await apply(
        plane,
        tx,
        caller,
        changed.map((id) => robots.get(id) as BulkRow),
        change,
      );
    return outcomes;
  });
}

function outcomeOf(caller: Caller, robot_id: string, robot: BulkRow | undefined, { fleet }: Change): BulkOutcome {
  const role = robot === undefined ? undefined : roleOn(caller, robot);
  if (robot === undefined || role === undefined) return { robot_id, outcome: "not_found", message: `robot ${robot_id} does not exist` };
  if (!roleAtLeast(role, "operator"))
    return { robot_id, outcome: "forbidden", message: `this needs the role operator; the token has ${role} there` };
  if (robot.decommissioned) return { robot_id, outcome: "conflict", message: `robot ${robot_id} is decommissioned` };
  if (robot.labels_after > LABELS_MAX)
    return {
      robot_id,
      outcome: "conflict",
      message: `robot ${robot_id} would have ${robot.labels_after} labels; at most ${LABELS_MAX} are allowed`,
    };
  const leaves = fleet !== undefined && fleet.id !== robot.fleet_id;
  return { robot_id, outcome: leaves || robot.labels_change ? "changed" : "unchanged", message: null };
}

async function apply(plane: Plane, tx: Db, { org_id, actor }: Caller, robots: readonly BulkRow[], change: Change): Promise<void> {
  const { fleet } = change;
  const ids = robots.map(({ id }) => id);
  await updateRobots(tx, org_id, ids, change, plane.clock.now());
  const moves = fleet === undefined ? [] : robots.filter(({ fleet_id }) => fleet_id !== fleet.id);
  const stay = robots.filter((robot) => !moves.includes(robot));
  announce(
    tx,
    plane,
    org_id,
    stay.map(({ id, site_id, fleet_id }) => ({ kind: "robot", id, change: "updated", site_id, fleet_id })),
  );
  if (fleet === undefined || moves.length === 0) return;
  const to = { site_id: fleet.site_id, fleet_id: fleet.id };
  const moved_ids = moves.map(({ id }) => id);
  announce(
    tx,
    plane,
    org_id,
    moves.map(({ id, site_id, fleet_id }) => moved(id, { site_id, fleet_id }, to)),
  );
  await noteAuthorityChange(tx, plane, org_id, "robot", moved_ids);
  await followFleet(tx, plane, org_id, moved_ids);
  await recordTimelineMany(
    tx,
    plane,
    moves.map(({ id, site_id, fleet_id }) => ({
      org_id,
      robot_id: id,
      kind: "robot.moved",
      actor,
      summary: `The robot was moved to fleet ${fleet.name}`,
      data: { from: { site_id, fleet_id }, to },
    })),
  );
}
