import type { Db } from "../../kernel/db.ts";
import { sourceOf } from "./source.ts";
import { countMembers, listMembers } from "./store/deployments.ts";
import { groupSourceMembers, listSourceMembers } from "./store/rollback.ts";
import type { DeploymentRow } from "./store/rows.ts";

export interface Member {
  robot_id: string;
  /** The release that it gets; null: a config, or removal of the app. */
  release_id: string | null;
}

type Of = Pick<DeploymentRow, "org_id" | "robot_id" | "fleet_id" | "release_id" | "retry_of" | "rollback_of" | "order_number">;

/** Returns robots of the deployment after a cursor, by id: of its fleet when it started, its one robot, or robots of an ended deployment. */
export async function membersOf(tx: Db, deployment: Of, after: string, limit: number): Promise<Member[]> {
  const { org_id, robot_id, fleet_id, release_id, order_number } = deployment;
  const source = sourceOf(deployment);
  if (source !== undefined) return listSourceMembers(tx, org_id, source, after, limit);
  if (fleet_id === null) return after === "" ? [{ robot_id: robot_id ?? "", release_id }] : [];
  return (await listMembers(tx, org_id, fleet_id, order_number, after, limit)).map(({ id }) => ({ robot_id: id, release_id }));
}

/** Returns the number of robots that `membersOf` returns. */
export async function countMembersOf(tx: Db, deployment: Of): Promise<number> {
  const source = sourceOf(deployment);
  if (source !== undefined) return (await groupSourceMembers(tx, deployment.org_id, source)).reduce((sum, { robots }) => sum + robots, 0);
  return deployment.fleet_id === null ? 1 : (await countMembers(tx, deployment.org_id, deployment.fleet_id, deployment.order_number)).count;
}
