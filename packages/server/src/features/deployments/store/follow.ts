import type { Actor, Rollout } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { bigint, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf } from "../../../kernel/sql.ts";
import { type DeploymentKind, deploymentRow } from "./rows.ts";

export type Cause = "joined" | "returned";

const behindRow = row({
  robot_id: text,
  fleet_id: text,
  kind: textOf<DeploymentKind>(),
  /** Name of the app; '' for a config. */
  app: text,
  /** Id of the release, or revision of the config. */
  wanted: text,
  /** The deployment that gave the fleet this release or config. */
  source_id: text,
  rollout: jsonb<Rollout>(),
  cause: textOf<Cause>(),
  /** The earlier automatic deployment of the same release or config to this robot, which may be repeated; null if there is none. */
  earlier_id: nullable(text),
});
export type Behind = RowOf<typeof behindRow>;

/**
 * Returns the connected robots that lack a release or config of their fleet: they joined the fleet after its deployment, or were offline
 * until that deployment expired. Leaves out robots with an open target for the app or config, and robots to which a user has deployed
 * something else since. Also leaves out robots that already had an automatic deployment of the release or config: one attempt per stay in
 * the fleet.
 */
export const listBehind = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(behindRow)`
    -- reads tables of other features: robot, fleet
    with member as (
      select r.org_id, r.id as robot_id, r.fleet_order_number as since, f.id as fleet_id, f.desired, f.config_revision
      from robot r join fleet f on f.org_id = r.org_id and f.id = r.fleet_id
      where r.org_id = ${org_id} and r.id = any(${list(robot_ids)}::text[]) and r.node_id is not null and r.decommissioned_at is null and r.held_at is null
        and f.follow and (f.desired <> '{}' or f.config_revision is not null)),
    wanted as (
      select m.org_id, m.robot_id, m.since, m.fleet_id, 'release' as kind, w.key as app, w.value ->> 'id' as wanted, w.value ->> 'deployment_id' as source_id
      from member m cross join lateral jsonb_each(m.desired) w
      union all
      select m.org_id, m.robot_id, m.since, m.fleet_id, 'config', '', m.config_revision, m.config_revision from member m where m.config_revision is not null)
    select w.robot_id, w.fleet_id, w.kind, w.app, w.wanted, w.source_id, d.rollout, case when t.id is null then 'joined' else 'returned' end as cause,
      o.deployment_id as earlier_id
    from wanted w
    join deployment d on d.org_id = w.org_id and d.id = w.source_id
    left join deployment_target t on t.org_id = w.org_id and t.deployment_id = w.source_id and t.robot_id = w.robot_id and d.order_number > w.since
    left join robot_app a on a.org_id = w.org_id and a.robot_id = w.robot_id and w.kind = 'release' and a.app = w.app
    left join robot_follow o on o.org_id = w.org_id and o.robot_id = w.robot_id and o.subject = w.wanted
    left join deployment e on e.org_id = o.org_id and e.id = o.deployment_id
    where (t.id is null or (t.status = 'cancelled' and t.reason = 'expired'))
      and (a.robot_id is null or (a.current_release_id is distinct from w.wanted and a.target_id is null))
      and (o.robot_id is null or o.order_number < w.since or (e.status = 'cancelled' and e.reason = 'expired'))
      and not exists (
        select from deployment_target u where u.org_id = w.org_id and u.robot_id = w.robot_id and u.kind = w.kind and (u.kind = 'config' or u.subject = w.app)
          and u.status not in ('applied', 'failed', 'rolled_back', 'cancelled'))
      and not exists (
        select from deployment_target l join deployment by on by.org_id = l.org_id and by.id = l.deployment_id
        where l.org_id = w.org_id and l.id = a.last_target_id and l.deployment_id <> w.source_id and by.created_by ->> 'type' <> 'system'
          and by.order_number > case when t.id is null then w.since else d.order_number end)
    order by w.robot_id, w.kind, w.app`);

const unwantedRow = row({ id: text, reason: textOf<"superseded" | "rollback_requested">() });
/**
 * Returns those of these automatic deployments whose release or config the fleet no longer has. The reason is `superseded` if the fleet has
 * another release, and `rollback_requested` if it has had none since a rollback.
 */
export const listUnwantedFollows = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(unwantedRow)`
    -- reads tables of other features: fleet
    select d.id, case when d.kind = 'config' or f.desired -> d.app is null then 'rollback_requested' else 'superseded' end as reason
    from deployment d join fleet f on f.org_id = d.org_id and f.id = d.authority ->> 'fleet_id'
    where d.org_id = ${org_id} and d.id = any(${list(ids)}::text[])
      and case d.kind when 'config' then f.config_revision is null else f.desired -> d.app ->> 'id' is distinct from d.release_id end`);

export interface Attempt {
  robot_id: string;
  subject: string;
  deployment_id: string;
}

/**
 * Records the automatic deployment of each robot. Only one is recorded per robot and `subject` (a release or config); it may replace one of
 * `earlier_ids`. Returns the ids of the recorded deployments. An id is absent if another transaction recorded a deployment for its robot
 * first.
 */
export const takeAttempts = (db: Db, org_id: string, attempts: readonly Attempt[], earlier_ids: readonly string[], now: Date) =>
  db.many(sql(row({ deployment_id: text }))`
    insert into robot_follow (org_id, robot_id, subject, deployment_id, created_at)
    select ${org_id}, a.robot_id, a.subject, a.deployment_id, ${now}
    from unnest(${list(attempts.map((a) => a.robot_id))}::text[], ${list(attempts.map((a) => a.subject))}::text[], ${list(attempts.map((a) => a.deployment_id))}::text[])
      as a (robot_id, subject, deployment_id)
    order by a.robot_id, a.subject
    on conflict (org_id, robot_id, subject) do update set deployment_id = excluded.deployment_id, order_number = excluded.order_number, created_at = excluded.created_at
      where robot_follow.deployment_id = any(${list(earlier_ids)}::text[])
    returning deployment_id`);

export interface RobotDeployment {
  id: string;
  kind: DeploymentKind;
  robot_id: string;
  /** The fleet that the robot follows; the deployment acts on its authority. */
  fleet_id: string;
  release_id: string | null;
  app: string | null;
  revision: string | null;
  rollout: Rollout;
}

/** Inserts queued deployments of one robot each. The caller writes their targets, and their first events, which have number 1. */
export const insertRobotDeployments = (
  db: Db,
  org_id: string,
  deployments: readonly RobotDeployment[],
  { actor, now, expires_at }: { actor: Actor; now: Date; expires_at: Date },
) =>
  db.many(sql(deploymentRow)`
    insert into deployment (org_id, id, kind, target_kind, robot_id, release_id, app, revision, rollout, status, fan_out_at, fan_out_done_at, fan_out_cursor, expires_at,
      created_by, authority, count_total, count_queued, event_seq, created_at, updated_at)
    select ${org_id}, d.id, d.kind, 'robot', d.robot_id, d.release_id, d.app, d.revision, d.rollout, 'queued', ${now}, ${now}, d.robot_id, ${expires_at}, ${json(actor)}, jsonb_build_object('fleet_id', d.fleet_id), 1, 1, 1, ${now}, ${now}
    from jsonb_to_recordset(${json(deployments)}::jsonb) as d (id text, kind text, robot_id text, fleet_id text, release_id text, app text, revision text, rollout jsonb)
    returning ${deploymentRow}`);

/** Returns connected members of a fleet after a cursor, by id. */
export const listOnlineMembers = (db: Db, org_id: string, fleet_id: string, after: string, limit: number) =>
  db.many(sql(row({ id: text }))`
    -- reads tables of other features: robot
    select id from robot where org_id = ${org_id} and fleet_id = ${fleet_id} and node_id is not null and decommissioned_at is null and id > ${after}
    order by id limit ${limit}`);

const originRow = row({ id: text, retry_of: nullable(text), rollback_of: nullable(text), order_number: bigint });
/** Returns these deployments and, recursively, the deployments that they retry or roll back. */
export const listOrigins = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(originRow)`
    with recursive origin as (
      select id, retry_of, rollback_of, order_number from deployment where org_id = ${org_id} and id = any(${list(ids)}::text[])
      union
      select d.id, d.retry_of, d.rollback_of, d.order_number from origin o join deployment d on d.org_id = ${org_id} and d.id = coalesce(o.retry_of, o.rollback_of))
    select ${originRow} from origin`);

/** Returns the release that most robots of these ended deployments got. Null if most got no release. */
export const commonestApplied = async (db: Db, org_id: string, deployment_ids: readonly string[]): Promise<string | null> =>
  (
    await db.maybe(sql(row({ release_id: nullable(text) }))`
      select release_id from deployment_target where org_id = ${org_id} and deployment_id = any(${list(deployment_ids)}::text[]) and status = 'applied'
      group by 1 order by count(*) desc, 1 limit 1`)
  )?.release_id ?? null;
