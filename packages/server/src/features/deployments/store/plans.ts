import type { Db } from "../../../kernel/db.ts";
import { bool, jsonb, nullable, row, type RowOf, sql, text } from "../../../kernel/sql.ts";

const plannedRobotRow = row({
  id: text,
  name: text,
  online: bool,
  labels: jsonb<Record<string, string>>(),
  kinds: jsonb<string[]>(),
  current_release_id: nullable(text),
});
export type PlannedRobot = RowOf<typeof plannedRobotRow>;

/** Robots to which a deployment to this robot or fleet would go now, by id, with the facts that a plan shows. */
export const listPlannedRobots = (
  db: Db,
  org_id: string,
  target: { robot_id: string | null; fleet_id: string | null; app: string },
  after: string,
  limit: number,
) =>
  db.many(sql(plannedRobotRow)`
    -- reads: robot
    select r.id, r.name, r.node_id is not null as online, r.labels, r.kinds, a.current_release_id
    from robot r left join robot_app a on a.org_id = r.org_id and a.robot_id = r.id and a.app = ${target.app}
    where r.org_id = ${org_id} and ${target.fleet_id === null ? sql`r.id = ${target.robot_id}` : sql`r.fleet_id = ${target.fleet_id}`}
      and r.decommissioned_at is null and r.id > ${after}
    order by r.id limit ${limit}`);
