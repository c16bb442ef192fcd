import type { DeploymentStatus, Reason } from "@roamfleet/protocol";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import type { Window } from "../../../kernel/page.ts";
import { bigint, bool, int, json, jsonb, list, nullable, row, sql, text, textOf, timestamptz } from "../../../kernel/sql.ts";
import type { ReasonCounts } from "../reason-counts.ts";
import type { Counts } from "../state.ts";
import { reachedDeployments } from "./reach.ts";
import { type DeploymentKind, type DeploymentRow, deploymentRow } from "./rows.ts";
import { inTurns } from "./turns.ts";

export type NewDeployment = Pick<
  DeploymentRow,
  | "org_id"
  | "id"
  | "kind"
  | "target_kind"
  | "robot_id"
  | "fleet_id"
  | "release_id"
  | "app"
  | "namespace"
  | "revision"
  | "rollout"
  | "scheduled_at"
  | "status"
  | "expires_at"
  | "created_by"
  | "authority"
  | "count_total"
  | "fan_out_at"
  | "retry_of"
  | "rollback_of"
>;

/** Inserts a deployment. Its first event has number 1; the caller writes it in the same transaction. */
export const insertDeployment = (db: Db, d: NewDeployment, now: Date) =>
  db.one(sql(deploymentRow)`
    insert into deployment (org_id, id, kind, target_kind, robot_id, fleet_id, release_id, app, namespace, revision, rollout, scheduled_at, status, expires_at, created_by, authority, count_total, fan_out_at, retry_of, rollback_of, event_seq, created_at, updated_at)
    values (${d.org_id}, ${d.id}, ${d.kind}, ${d.target_kind}, ${d.robot_id}, ${d.fleet_id}, ${d.release_id}, ${d.app}, ${d.namespace}, ${d.revision}, ${json(d.rollout)}, ${d.scheduled_at},
      ${d.status}, ${d.expires_at}, ${json(d.created_by)}, ${json(d.authority ?? undefined)}, ${d.count_total}, ${d.fan_out_at}, ${d.retry_of}, ${d.rollback_of}, 1, ${now}, ${now})
    returning ${deploymentRow}`);

export const insertDue = (db: Db, org_id: string, id: string, due_at: Date) =>
  db.run(sql`insert into deployment_due (org_id, id, due_at) values (${org_id}, ${id}, ${due_at})`);
export const deleteDue = (db: Db, org_id: string, id: string) =>
  db.run(sql`delete from deployment_due where org_id = ${org_id} and id = ${id}`);

const dueRow = row({ org_id: text, id: text });
/**
 * Due deployments, taking turns between orgs, without those in `skip`, of suspended orgs, and locked by another node. Those that were
 * postponed come after those that wait. Skips through the index from org to org, so deployments that are not due cost nothing.
 */
export const listDue = (db: Db, now: Date, limit: number, skip: readonly string[]) =>
  db.many(sql(dueRow)`
    -- across orgs: due deployments, by time
    -- reads: org
    with recursive held_org as (
      (select org_id from deployment_due order by org_id limit 1)
      union all
      select n.org_id from held_org o cross join lateral (select d.org_id from deployment_due d where d.org_id > o.org_id order by d.org_id limit 1) n)
    select org_id, id from (
      select due.*, row_number() over (partition by due.org_id order by due.at, due.id) as turn
      from held_org o cross join lateral (
        select d.org_id, d.id, coalesce(d.not_before_at, d.due_at) as at from deployment_due d
        where d.org_id = o.org_id and coalesce(d.not_before_at, d.due_at) <= ${now} and d.due_at <= ${now} and d.id <> all(${list(skip)}::text[])
        order by coalesce(d.not_before_at, d.due_at) limit ${limit} for update skip locked) due
      where o.org_id not in (select id from org where status = 'suspended')) as in_turns
    order by turn, at, id limit ${limit}`);

/** Takes due deployments off the schedule, so that only one node starts each. Ids that are not returned are already taken, or not due. */
export const takeDue = (db: Db, org_id: string, ids: readonly string[], now: Date) =>
  db.many(
    sql(
      row({ id: text }),
    )`delete from deployment_due where org_id = ${org_id} and id = any(${list(ids)}::text[]) and due_at <= ${now} returning id`,
  );

/** Postpones a deployment that could not start. */
export const postponeDue = (db: Db, org_id: string, id: string, not_before_at: Date) =>
  db.run(sql`update deployment_due set not_before_at = ${not_before_at} where org_id = ${org_id} and id = ${id}`);

export const nextDueAt = (db: Db, skip: readonly string[]) =>
  // reads: org
  db.one(sql(row({ due_at: nullable(timestamptz) }))`
    select min(coalesce(not_before_at, due_at)) as due_at from deployment_due
    where org_id not in (select id from org where status = 'suspended') and id <> all(${list(skip)}::text[])`);

const expiryRow = row({ days: nullable(int) });
/** Returns after how many days the org's deployments expire; null if it has no setting. */
export const expiryDays = async (db: Db, org_id: string): Promise<number | null> =>
  // reads: org
  (await db.one(sql(expiryRow)`select (settings ->> 'deployment_expires_days')::int as days from org where id = ${org_id}`)).days;

export const getDeploymentRow = (db: Db, org_id: string, kind: DeploymentKind, id: string) =>
  db.maybe(sql(deploymentRow)`select ${deploymentRow} from deployment where org_id = ${org_id} and id = ${id} and kind = ${kind}`);

/** Locks deployments in the order of their ids, so that transactions cannot deadlock. */
export const lockDeployments = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(
    sql(
      deploymentRow,
    )`select ${deploymentRow} from deployment where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for update`,
  );

export interface DeploymentFilter {
  kind: DeploymentKind;
  status?: string | undefined;
  robot_id?: string | undefined;
  fleet_id?: string | undefined;
  release_id?: string | undefined;
  namespace?: string | undefined;
  cause?: "request" | "follow" | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

/** Each condition has a partial index whose condition is the same text. */
const CAUSES = {
  request: sql`and (target_kind <> 'robot' or created_by ->> 'type' is distinct from 'system')`,
  follow: sql`and (target_kind = 'robot' and created_by ->> 'type' = 'system')`,
};

export const listDeploymentRows = (db: Db, caller: Caller, f: DeploymentFilter, { after, limit }: Window) =>
  db.many(sql(deploymentRow)`
    select ${deploymentRow} from deployment where org_id = ${caller.org_id} and kind = ${f.kind} ${reachedDeployments(caller)}
    ${f.status === undefined ? sql`` : sql`and status = ${f.status}`}
    ${f.robot_id === undefined ? sql`` : sql`and robot_id = ${f.robot_id}`}
    ${f.fleet_id === undefined ? sql`` : sql`and fleet_id = ${f.fleet_id}`}
    ${f.release_id === undefined ? sql`` : sql`and release_id = ${f.release_id}`}
    ${f.namespace === undefined ? sql`` : sql`and namespace = ${f.namespace}`}
    ${f.cause === undefined ? sql`` : CAUSES[f.cause]}
    ${f.since === undefined ? sql`` : sql`and created_at >= ${f.since}`}
    ${f.until === undefined ? sql`` : sql`and created_at < ${f.until}`}
    ${after === null ? sql`` : sql`and id < ${after}`}
    order by id desc limit ${limit}`);

export interface DeploymentUpdate {
  status: DeploymentStatus;
  reason: Reason | null;
  delta: Counts;
  /** Absent: unchanged. */
  reason_counts?: ReasonCounts;
  /** Targets dispatched for the first time; absent: none. */
  dispatched?: number;
  /** What the policy requires because too many robots failed. */
  halt?: "stop" | "pause" | "rollback" | null;
  /** When the rollout loop checks it next; null or absent: unchanged. */
  step_at?: Date | null;
  events: number;
  started_at: Date | null;
  finished_at: Date | null;
}

/** Changes the counters by `delta` and reserves event numbers. The caller has locked the row. */
export const updateDeployment = (db: Db, org_id: string, id: string, u: DeploymentUpdate, now: Date) =>
  db.one(sql(deploymentRow)`
    update deployment set status = ${u.status}, reason = ${u.reason}, event_seq = event_seq + ${u.events},
      count_total = count_total + ${u.delta.total}, count_pending = count_pending + ${u.delta.pending}, count_queued = count_queued + ${u.delta.queued},
      count_active = count_active + ${u.delta.active}, count_applied = count_applied + ${u.delta.applied}, count_failed = count_failed + ${u.delta.failed},
      count_rolled_back = count_rolled_back + ${u.delta.rolled_back}, count_cancelled = count_cancelled + ${u.delta.cancelled},
      count_dispatched = count_dispatched + ${u.dispatched ?? 0}, step_at = coalesce(${u.step_at ?? null}, step_at),
      stop_requested_at = coalesce(stop_requested_at, ${u.halt === "stop" ? now : null}), rollback_requested_at = coalesce(rollback_requested_at, ${u.halt === "rollback" ? now : null}),
      paused_at = coalesce(paused_at, ${u.halt === "pause" ? now : null}),
      reason_counts = coalesce(${json(u.reason_counts)}::jsonb, reason_counts),
      started_at = coalesce(started_at, ${u.started_at}), finished_at = coalesce(finished_at, ${u.finished_at}), updated_at = ${now}
    where org_id = ${org_id} and id = ${id}
    returning ${deploymentRow}`);

export const setCancelRequested = (db: Db, org_id: string, id: string, mode: "finish" | "rollback", now: Date) =>
  db.run(
    sql`update deployment set cancel_requested_at = coalesce(cancel_requested_at, ${now}), cancel_mode = ${mode}, updated_at = ${now} where org_id = ${org_id} and id = ${id}`,
  );

export const setPaused = (db: Db, org_id: string, id: string, u: { paused_at: Date | null; failures_accepted: number }) =>
  db.run(
    sql`update deployment set paused_at = ${u.paused_at}, failures_accepted = ${u.failures_accepted} where org_id = ${org_id} and id = ${id}`,
  );

/** Starts the fan-out of a deployment: from now on its robots are resolved and it may expire. */
export const setFanOut = (db: Db, org_id: string, id: string, u: { fan_out_at: Date; expires_at: Date; count_total: number }) =>
  db.run(
    sql`update deployment set fan_out_at = ${u.fan_out_at}, expires_at = ${u.expires_at}, count_total = ${u.count_total} where org_id = ${org_id} and id = ${id}`,
  );

/** Records that a chunk of targets was written. With the last chunk, the total becomes the number that was written. */
export const setFanOutProgress = (
  db: Db,
  org_id: string,
  id: string,
  u: {
    cursor: string;
    /** The counter of the new targets' status. */
    counter: "pending" | "queued";
    written: number;
    last: boolean;
    done_at: Date | null;
    wave_to_assign: number | null;
    step_at: Date | null;
  },
) =>
  db.one(sql(deploymentRow)`
    update deployment set fan_out_cursor = ${u.cursor}, fan_out_done_at = ${u.done_at}, wave_to_assign = ${u.wave_to_assign}, step_at = ${u.step_at},
      count_pending = count_pending + ${u.counter === "pending" ? u.written : 0}, count_queued = count_queued + ${u.counter === "queued" ? u.written : 0},
      count_total = case when not ${u.last} then count_total
        else count_pending + count_queued + count_active + count_applied + count_failed + count_rolled_back + count_cancelled + ${u.written} end
    where org_id = ${org_id} and id = ${id}
    returning ${deploymentRow}`);

/** Unfinished fan-outs, taking turns between orgs, without those in `skip`. */
export const listUnfinishedFanOuts = (db: Db, limit: number, skip: readonly string[]) =>
  db.many(
    inTurns(
      sql`select org_id, id, order_number as at from deployment
        where fan_out_at is not null and fan_out_done_at is null and finished_at is null and id <> all(${list(skip)}::text[])`,
      limit,
    ),
  );

/** Expired deployments, taking turns between orgs, without those in `skip`. */
export const listExpired = (db: Db, now: Date, limit: number, skip: readonly string[]) =>
  db.many(
    inTurns(
      sql`select org_id, id, expires_at as at from deployment
        where finished_at is null and expires_at <= ${now} and id <> all(${list(skip)}::text[])`,
      limit,
    ),
  );

/** Cancelled deployments with waiting targets, or with robots that were not asked to stop; taking turns between orgs, without those in `skip`. */
export const listCancelling = (db: Db, limit: number, skip: readonly string[]) =>
  db.many(
    inTurns(
      sql`select org_id, id, cancel_requested_at as at from deployment d where finished_at is null and cancel_requested_at is not null and id <> all(${list(skip)}::text[]) and (count_pending + count_queued > 0 or (count_active > 0 and exists (
        select from deployment_target t join robot_app a on a.org_id = t.org_id and a.robot_id = t.robot_id and a.app = t.subject and a.target_id = t.id
        where t.org_id = d.org_id and t.deployment_id = d.id and t.status in ('dispatched', 'downloading', 'staged'))))`,
      limit,
    ),
  );

/** Members of the fleet after a cursor; robots that joined after the deployment started are not part of it. */
export const listMembers = (db: Db, org_id: string, fleet_id: string, before: number, after: string, limit: number) =>
  db.many(sql(row({ id: text }))`
    -- reads: robot
    select id from robot where org_id = ${org_id} and fleet_id = ${fleet_id} and decommissioned_at is null and fleet_order_number < ${before} and id > ${after}
    order by id limit ${limit}`);

export const countMembers = (db: Db, org_id: string, fleet_id: string, before: number) =>
  db.one(sql(row({ count: int }))`
    -- reads: robot
    select count(*)::int as count from robot where org_id = ${org_id} and fleet_id = ${fleet_id} and decommissioned_at is null and fleet_order_number < ${before}`);

export const deploymentReleaseRow = row({
  id: text,
  tag: text,
  kind: text,
  app: text,
  artifact_state: textOf<"awaiting_upload" | "stored" | "external">(),
});
/** Includes everything that a signature covers. */
const signedReleaseRow = row({
  id: text,
  tag: text,
  kind: text,
  app: text,
  artifact_state: textOf<"awaiting_upload" | "stored" | "external">(),
  artifact_sha256: text,
  artifact_size: bigint,
  image: nullable(text),
  manifest: nullable(jsonb<unknown>()),
  signature: nullable(jsonb<unknown>()),
});
/** Finds a release by its id or tag, and locks it against deletion until the transaction ends. */
export const findRelease = (db: Db, org_id: string, name: string) =>
  db.maybe(sql(signedReleaseRow)`
    -- reads: release
    select ${signedReleaseRow} from release where org_id = ${org_id} and (id = ${name} or tag = ${name}) order by (id = ${name}) desc limit 1 for key share`);

/** Returns those of these releases that exist, and locks them against deletion until the transaction ends. */
export const holdSignedReleases = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(signedReleaseRow)`
    -- reads: release
    select ${signedReleaseRow} from release where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for key share`);

export const listReleases = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(deploymentReleaseRow)`
    -- reads: release
    select ${deploymentReleaseRow} from release where org_id = ${org_id} and id = any(${list(ids)}::text[])`);

export const findTargetRobot = (db: Db, org_id: string, id: string) =>
  db.maybe(sql(row({ id: text, decommissioned: bool }))`
    -- reads: robot
    select id, decommissioned_at is not null as decommissioned from robot where org_id = ${org_id} and id = ${id}`);

export const fleetExists = async (db: Db, org_id: string, id: string): Promise<boolean> =>
  (await db.maybe(sql(row({ id: text }))`
    -- reads: fleet
    select id from fleet where org_id = ${org_id} and id = ${id}`)) !== undefined;

/** Whether a robot in service runs the release, is to run it or may roll back to it, or a deployment of it is open. */
export const releaseIsDeployed = async (db: Db, org_id: string, release_id: string): Promise<boolean> =>
  (
    await db.one(sql(row({ used: bool }))`
      -- reads: robot
      select exists (select 1 from robot_app a join robot r on r.org_id = a.org_id and r.id = a.robot_id and r.decommissioned_at is null
          where a.org_id = ${org_id} and (a.current_release_id = ${release_id} or a.desired_release_id = ${release_id} or a.previous_release_id = ${release_id}))
        or exists (select 1 from deployment where org_id = ${org_id} and release_id = ${release_id} and finished_at is null) as used`)
  ).used;
