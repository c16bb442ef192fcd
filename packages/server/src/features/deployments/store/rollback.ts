import type { Db } from "../../../kernel/db.ts";
import { int, nullable, row, sql, text } from "../../../kernel/sql.ts";
import type { DeploymentRow } from "./rows.ts";

/**
 * Returns the releases that robots ran before this deployment, most frequent first; null means that robots ran none. Considers only robots
 * that run the deployment's release or are installing it.
 */
export const groupReturns = (db: Db, org_id: string, deployment_id: string) =>
  db.many(sql(row({ release_id: nullable(text) }))`
    select previous_release_id as release_id from deployment_target
    where org_id = ${org_id} and deployment_id = ${deployment_id} and status in ('applied', 'installing', 'verifying')
    group by 1 order by count(*) desc, 1`);

/** Selects the targets of an ended deployment for its retry or rollback. */
export interface Source {
  deployment_id: string;
  /** `retry`: failed robots get the deployment's release again; `rollback`: robots that still run it get their previous one. */
  as: "retry" | "rollback";
  /** The site and fleet of the deployment: robots that have left them are not included. */
  site_id: string | null;
  fleet_id: string | null;
}

/** Returns the source of a deployment for the same target that retries `deployment_id` or rolls it back. */
export const sourceIn = (
  { fleet_id, target_selector }: Pick<DeploymentRow, "fleet_id" | "target_selector">,
  deployment_id: string,
  as: Source["as"],
): Source => ({
  deployment_id,
  as,
  site_id: target_selector?.site_id ?? null,
  fleet_id: fleet_id ?? target_selector?.fleet_id ?? null,
});

const ofSource = (org_id: string, { deployment_id, as, site_id, fleet_id }: Source) => sql`
  -- reads tables of other features: robot
  from deployment_target t join robot r on r.org_id = t.org_id and r.id = t.robot_id
  where t.org_id = ${org_id} and t.deployment_id = ${deployment_id} and r.decommissioned_at is null
    and (${fleet_id}::text is null or r.fleet_id = ${fleet_id}) and (${site_id}::text is null or r.site_id = ${site_id})
    ${
      as === "retry"
        ? sql`and t.status in ('failed', 'rolled_back')`
        : sql`and t.status = 'applied' and exists (
          select from robot_app a where a.org_id = t.org_id and a.robot_id = t.robot_id and a.app = t.subject
            and a.target_id is null and a.current_release_id is not distinct from t.release_id)`
    }`;

/** Selects robots after a cursor, with the release that each robot gets. Null means none. */
export const selectSourceMembers = (org_id: string, source: Source, after: string, limit: number) => sql`
    select t.robot_id, ${source.as === "retry" ? sql`t.release_id` : sql`t.previous_release_id`} as release_id ${ofSource(org_id, source)} and t.robot_id > ${after}
    order by t.robot_id limit ${limit}`;

const groupRow = row({ release_id: nullable(text), robots: int });
/** Returns how many robots get each release, most frequent first. */
export const groupSourceMembers = (db: Db, org_id: string, source: Source) =>
  db.many(sql(groupRow)`
    select ${source.as === "retry" ? sql`t.release_id` : sql`t.previous_release_id`} as release_id, count(*)::int as robots ${ofSource(org_id, source)}
    group by 1 order by count(*) desc, 1`);
