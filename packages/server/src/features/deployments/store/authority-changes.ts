import type { Db } from "../../../kernel/db.ts";
import { list, nullable, row, sql, type Statement, text, textOf } from "../../../kernel/sql.ts";
import type { Place } from "../../../kernel/caller.ts";
import { type DeploymentRow, targetRow } from "./rows.ts";

/** What has changed, so that deployments may no longer be authorized: a user, a token, a moved robot, or a fleet that no longer follows a release. */
export type AuthoritySubject = "user" | "token" | "robot" | "fleet";

/**
 * `version` is the row's xmin. Recording a change again gives the row a new xmin, whatever the clocks of the servers. A separate column
 * would not do, because a server of the previous version does not write it.
 */
const changeRow = row({ org_id: text, kind: textOf<AuthoritySubject>(), subject_id: text, version: text });

export const insertAuthorityChanges = (db: Db, org_id: string, kind: AuthoritySubject, subject_ids: readonly string[], now: Date) =>
  db.run(sql`
    insert into authority_change (org_id, kind, subject_id, changed_at)
    select ${org_id}, ${kind}, id, ${now} from unnest(${list(subject_ids)}::text[]) as s (id) order by id
    on conflict (org_id, kind, subject_id) do update set changed_at = excluded.changed_at`);

export const listAuthorityChanges = (db: Db, limit: number, skip: readonly string[]) =>
  db.many(sql(changeRow)`
    -- across orgs: a background loop handles the changes of all of them
    select org_id, kind, subject_id, version from (
      select org_id, kind, subject_id, xmin::text as version, changed_at, row_number() over (partition by org_id order by changed_at, subject_id) as turn
      from authority_change where subject_id <> all(${list(skip)}::text[])) as in_turns
    order by turn, changed_at, org_id, subject_id limit ${limit}`);

/** Deletes a handled change, unless it was recorded again since. */
export const deleteAuthorityChange = (db: Db, org_id: string, kind: AuthoritySubject, subject_id: string, version: string) =>
  db.run(
    sql`delete from authority_change where org_id = ${org_id} and kind = ${kind} and subject_id = ${subject_id} and xmin::text = ${version}`,
  );

const idRow = row({ id: text });
/**
 * Open deployments that act on the authority of the subject. For a robot: scheduled deployments to it, and deployments with an open target
 * for it.
 */
export const listOpenOf = (db: Db, org_id: string, kind: AuthoritySubject, subject_id: string) =>
  kind === "robot"
    ? db.many(sql(idRow)`
        select id from deployment where org_id = ${org_id} and finished_at is null and status = 'scheduled' and robot_id = ${subject_id}
        union
        select deployment_id from deployment_target
        where org_id = ${org_id} and robot_id = ${subject_id} and status not in ('applied', 'failed', 'rolled_back', 'cancelled') order by id`)
    : db.many(sql(idRow)`
        select d.id from deployment d where d.org_id = ${org_id} and d.finished_at is null and ${concerns(kind, subject_id)} order by d.id`);

function concerns(kind: Exclude<AuthoritySubject, "robot">, subject_id: string): Statement<unknown> {
  if (kind === "fleet") return sql`d.authority ->> 'fleet_id' = ${subject_id}`;
  const [name, type] = kind === "user" ? ["user_id", "user"] : ["token_id", "org_token"];
  return sql`(d.authority ->> ${name} = ${subject_id} or (d.authority is null and d.created_by ->> 'type' = ${type} and d.created_by ->> 'id' = ${subject_id}))`;
}

/**
 * Locks targets of robots to which the deployment may no longer deploy: those whose robots have changed nothing yet, and those that roll
 * back while their robots are offline. `denied` selects the robots by a condition ` and …` on r.site_id and r.fleet_id.
 */
export const lockDenied = (db: Db, org_id: string, deployment_id: string, denied: Statement<unknown>, limit: number) =>
  db.many(sql(targetRow)`
    -- reads tables of other features: robot
    select ${targetRow.of("t")} from deployment_target t join robot r on r.org_id = t.org_id and r.id = t.robot_id
    where t.org_id = ${org_id} and t.deployment_id = ${deployment_id}
      and (t.status in ('pending', 'queued', 'dispatched', 'downloading', 'staged') or (t.status = 'rolling_back' and t.reverting and r.node_id is null)) ${denied}
    order by t.id limit ${limit} for update of t`);

const placeRow = row({ site_id: nullable(text), fleet_id: nullable(text) });
/** The current site and fleet of a deployment's robot, fleet or selection. Undefined if the robot or fleet does not exist. */
export async function findTargetPlace(
  db: Db,
  org_id: string,
  { robot_id, fleet_id, target_selector }: Pick<DeploymentRow, "robot_id" | "fleet_id" | "target_selector">,
): Promise<Place | undefined> {
  if (target_selector !== null && target_selector.fleet_id === undefined)
    return { site_id: target_selector.site_id ?? null, fleet_id: null };
  return robot_id !== null
    ? db.maybe(sql(placeRow)`
        -- reads tables of other features: robot
        select site_id, fleet_id from robot where org_id = ${org_id} and id = ${robot_id}`)
    : db.maybe(sql(placeRow)`
        -- reads tables of other features: fleet
        select site_id, id as fleet_id from fleet where org_id = ${org_id} and id = ${fleet_id ?? target_selector?.fleet_id ?? ""}`);
}
