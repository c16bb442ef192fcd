import type { Db } from "../../../kernel/db.ts";
import { row, type RowOf, sql, text, timestamptz } from "../../../kernel/sql.ts";

const finishedRow = row({ org_id: text, id: text, finished_at: timestamptz });
export type FinishedDeployment = RowOf<typeof finishedRow>;

const isBehind = (after: FinishedDeployment | undefined) =>
  after === undefined ? sql`` : sql`and (d.finished_at, d.org_id, d.id) > (${after.finished_at}, ${after.org_id}, ${after.id})`;

/** Selects deployments that finished before `before` and still have events, oldest first, after the cursor `after`. */
export const listWithEvents = (db: Db, before: Date, after: FinishedDeployment | undefined, limit: number): Promise<FinishedDeployment[]> =>
  db.many(sql(finishedRow)`
    -- across orgs: retention is the same for every org
    select ${finishedRow} from deployment d
    where finished_at is not null and events_dropped_at is null and finished_at < ${before} ${isBehind(after)}
    order by finished_at, org_id, id limit ${limit}`);

export const deleteEvents = (db: Db, { org_id, id }: FinishedDeployment, limit: number): Promise<number> =>
  db.run(sql`
    delete from deployment_event where org_id = ${org_id} and deployment_id = ${id} and seq = any(array(
      select seq from deployment_event where org_id = ${org_id} and deployment_id = ${id} order by seq limit ${limit}))`);

export const setEventsDropped = (db: Db, { org_id, id }: FinishedDeployment, now: Date): Promise<number> =>
  db.run(sql`update deployment set events_dropped_at = ${now} where org_id = ${org_id} and id = ${id} and finished_at is not null`);

/**
 * Condition on d: no open deployment retries it or rolls it back, no fleet has its release or config, and no robot has its newest target
 * from it.
 */
const isUnneeded = sql`-- reads tables of other features: fleet
      not exists (
        select from deployment o where o.org_id = d.org_id and o.finished_at is null and d.id in (o.retry_of, o.rollback_of))
      and not exists (
        select from fleet f where f.org_id = d.org_id and f.id = d.fleet_id
          and (f.config_revision = d.id or exists (select from jsonb_each(f.desired) w where w.value ->> 'deployment_id' = d.id)))
      and not exists (
        select from deployment_target t join robot_app a on a.org_id = t.org_id and a.robot_id = t.robot_id
        where t.org_id = d.org_id and t.deployment_id = d.id and (a.last_target_id = t.id or a.target_id = t.id))
      and not exists (
        select from deployment_target t join robot_config c on c.org_id = t.org_id and c.robot_id = t.robot_id
        where t.org_id = d.org_id and t.deployment_id = d.id and (c.last_target_id = t.id or c.target_id = t.id))`;

/**
 * Selects deployments that finished before `before`, oldest first, after the cursor `after`. Excludes deployments that are still needed: an
 * open deployment retries it or rolls it back, a fleet has its release or config, or it has the newest target of a robot for an app or
 * namespace.
 */
export const listUnneeded = (db: Db, before: Date, after: FinishedDeployment | undefined, limit: number): Promise<FinishedDeployment[]> =>
  db.many(sql(finishedRow)`
    -- across orgs: retention is the same for every org
    select ${finishedRow.of("d")} from deployment d
    where d.finished_at is not null and d.finished_at < ${before}
      ${isBehind(after)}
      and ${isUnneeded}
    order by d.finished_at, d.org_id, d.id limit ${limit}`);

/** Whether `listUnneeded` would still return this deployment, whose row the caller has locked. */
export const isStillUnneeded = async (db: Db, { org_id, id }: FinishedDeployment, before: Date): Promise<boolean> =>
  (await db.maybe(sql(finishedRow)`
    select ${finishedRow.of("d")} from deployment d
    where d.org_id = ${org_id} and d.id = ${id} and d.finished_at is not null and d.finished_at < ${before} and ${isUnneeded}`)) !==
  undefined;

export const deleteTargets = (db: Db, { org_id, id }: FinishedDeployment, limit: number): Promise<number> =>
  db.run(sql`
    delete from deployment_target where org_id = ${org_id} and deployment_id = ${id} and id = any(array(
      select id from deployment_target where org_id = ${org_id} and deployment_id = ${id} order by id limit ${limit}))`);

export const deleteDeployment = (db: Db, { org_id, id }: FinishedDeployment): Promise<number> =>
  db.run(sql`delete from deployment where org_id = ${org_id} and id = ${id} and finished_at is not null`);

/**
 * Deletes records of automatic deployments that are older than `before`, of releases and configs that no fleet has. Returns the row count.
 */
export const deleteAttempts = (db: Db, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    -- across orgs: retention is the same for every org
    -- reads tables of other features: fleet
    with wanted as (
      select org_id, config_revision as subject from fleet where config_revision is not null
      union all
      select f.org_id, w.value ->> 'id' from fleet f cross join lateral jsonb_each(f.desired) w)
    delete from robot_follow where (org_id, robot_id, subject) in (
      select o.org_id, o.robot_id, o.subject from robot_follow o where o.created_at < ${before}
        and not exists (select from wanted w where w.org_id = o.org_id and w.subject = o.subject) order by o.org_id, o.robot_id, o.subject limit ${limit} offset ${offset})`);
