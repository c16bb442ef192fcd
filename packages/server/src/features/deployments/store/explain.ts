import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { bool, jsonb, nullable, row, type RowOf, sql, text, timestamptz } from "../../../kernel/sql.ts";
import { reachedDeployments, type TargetRow, targetRow } from "./rows.ts";

/** Queries that only explanations need. */

const explainedRobotRow = row({
  id: text,
  name: text,
  site_id: text,
  fleet_id: text,
  online: bool,
  last_seen_at: nullable(timestamptz),
  decommissioned: bool,
  quarantined: bool,
  kinds: jsonb<string[]>(),
  arch: nullable(text),
});
export type ExplainedRobot = RowOf<typeof explainedRobotRow>;

export const findExplainedRobot = (db: Db, org_id: string, id: string): Promise<ExplainedRobot | undefined> =>
  db.maybe(sql(explainedRobotRow)`
    -- reads tables of other features: robot
    select id, name, site_id, fleet_id, node_id is not null as online, last_seen_at, decommissioned_at is not null as decommissioned,
      held_at is not null as quarantined, kinds, platform ->> 'arch' as arch
    from robot where org_id = ${org_id} and id = ${id}`);

/**
 * Returns the newest of these release deployments that the caller may see: those that the robot has not finished, the last one to the robot alone, the last one to
 * its fleet, and the last one that was dispatched to each of its apps.
 */
export const findLatestDeploymentId = async (
  db: Db,
  caller: Caller,
  { id, fleet_id }: Pick<ExplainedRobot, "id" | "fleet_id">,
): Promise<string | undefined> => {
  const { org_id } = caller;
  return (
    await db.maybe(sql(row({ id: text }))`
      select deployment.id from (
        select deployment_id from deployment_target
          where org_id = ${org_id} and robot_id = ${id} and status not in ('applied', 'failed', 'rolled_back', 'cancelled')
        union all
        (select id from deployment where org_id = ${org_id} and robot_id = ${id} and kind = 'release' order by id desc limit 1)
        union all
        (select id from deployment where org_id = ${org_id} and fleet_id = ${fleet_id} and kind = 'release' order by id desc limit 1)
        union all
        select t.deployment_id from robot_app a join deployment_target t on t.org_id = a.org_id and t.id = a.last_target_id
          where a.org_id = ${org_id} and a.robot_id = ${id}) as concerned
      join deployment on deployment.org_id = ${org_id} and deployment.id = concerned.deployment_id and deployment.kind = 'release'
      where true ${reachedDeployments(caller)}
      order by deployment.order_number desc limit 1`)
  )?.id;
};

export const findTarget = (db: Db, org_id: string, deployment_id: string, robot_id: string): Promise<TargetRow | undefined> =>
  db.maybe(sql(targetRow)`
    select ${targetRow} from deployment_target where org_id = ${org_id} and deployment_id = ${deployment_id} and robot_id = ${robot_id} limit 1`);

/** Returns the deployment with this order number, if it had the robot as a target and the caller may see it. */
export const findNewerDeploymentId = async (db: Db, caller: Caller, robot_id: string, order_number: number): Promise<string | null> =>
  (
    await db.maybe(sql(row({ id: text }))`
      select deployment.id from robot_app a
      join deployment_target t on t.org_id = a.org_id and t.id = a.last_target_id
      join deployment on deployment.org_id = t.org_id and deployment.id = t.deployment_id
      where a.org_id = ${caller.org_id} and a.robot_id = ${robot_id} and deployment.order_number = ${order_number} ${reachedDeployments(caller)} limit 1`)
  )?.id ?? null;

/** Returns the details that the robot's newest event of the deployment has about its outcome; null if it has none. */
export const findLastEventDetail = async (db: Db, org_id: string, deployment_id: string, robot_id: string): Promise<string | null> =>
  (
    await db.maybe(sql(row({ detail: nullable(text) }))`
      select data ->> 'detail' as detail from deployment_event
      where org_id = ${org_id} and deployment_id = ${deployment_id} and robot_id = ${robot_id} order by seq desc limit 1`)
  )?.detail ?? null;
