import type { Reason, TargetStatus, WaitingFor } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { containing, type Window } from "../../../kernel/page.ts";
import { bigint, bool, int, json, jsonb, list, nullable, row, type RowOf, sql, type Statement, text, textOf } from "../../../kernel/sql.ts";
import { reachedTargets, type TargetRow, targetRow } from "./rows.ts";

export interface NewTargets {
  org_id: string;
  deployment_id: string;
  kind: TargetRow["kind"];
  subject: string;
  status: "pending" | "queued";
  wave: number;
  waiting_for: WaitingFor | null;
  /** A new id. Its last characters are replaced by the number of the target in the chunk. */
  id: string;
  /** Selects `robot_id` and `release_id` of the chunk's robots. */
  members: Statement<unknown>;
}

/** Digits of a target's number in its chunk, so a chunk has at most 9,999 targets. */
const CHUNK_DIGITS = 4;
const chunkRow = row({ robots: int, written: int, last_robot_id: nullable(text) });

/**
 * Selects the robots of a chunk and inserts their targets in one statement, so that this process neither reads nor sends the robots' ids.
 * Skips robots that already have a target. Returns the number of robots and of written targets, and the last robot.
 */
export const insertTargets = (db: Db, t: NewTargets, now: Date) =>
  db.one(sql(chunkRow)`
    with member as materialized (
      select m.robot_id, m.release_id, row_number() over (order by m.robot_id) as n from (${t.members}) as m),
    written as (
      insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, wave, status, waiting_for, created_at, updated_at)
      select ${t.org_id}, ${t.deployment_id}, ${t.id.slice(0, -CHUNK_DIGITS)} || lpad(member.n::text, ${CHUNK_DIGITS}, '0'), ${t.kind}, member.robot_id, ${t.subject},
        member.release_id, ${t.wave}, ${t.status}, ${t.waiting_for}, ${now}, ${now}
      from member
      on conflict (org_id, deployment_id, robot_id, subject) do nothing
      returning 1)
    select count(*)::int as robots, (select count(*)::int from written) as written, max(robot_id) as last_robot_id from member`);

/** Locks the claimed targets that are still queued; skips those that another node has locked. */
export const lockQueued = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(targetRow)`
    select ${targetRow} from deployment_target
    where org_id = ${org_id} and id = any(${list(ids)}::text[]) and status = 'queued' and waiting_for is null
    order by id for update skip locked`);

const openRow = row({
  id: text,
  deployment_id: text,
  robot_id: text,
  kind: textOf<TargetRow["kind"]>(),
  subject: text,
  status: textOf<TargetStatus>(),
  order_number: bigint,
});
export type OpenTarget = RowOf<typeof openRow>;
/**
 * Open targets of these robots, without those in `except`, with the order number of their deployment. The order number is a
 * subselect, because PostgreSQL may read all targets of each deployment for a join, if its statistics are from before a large fan-out.
 */
export const listOpenTargets = (db: Db, org_id: string, robot_ids: readonly string[], except: readonly string[]) =>
  db.many(sql(openRow)`
    select t.id, t.deployment_id, t.robot_id, t.kind, t.subject, t.status,
      (select d.order_number from deployment d where d.org_id = t.org_id and d.id = t.deployment_id) as order_number
    from deployment_target t
    where t.org_id = ${org_id} and t.robot_id = any(${list(robot_ids)}::text[]) and t.status not in ('applied', 'failed', 'rolled_back', 'cancelled')
      and t.id <> all(${list(except)}::text[])`);

export const lockTargets = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(
    sql(
      targetRow,
    )`select ${targetRow} from deployment_target where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for update`,
  );

/**
 * Locks the targets in `ids` that belong to `deployment_ids`. Skips targets of other deployments, because those deployments must be locked
 * first.
 */
export const lockTargetsOf = (db: Db, org_id: string, deployment_ids: readonly string[], ids: readonly string[]) =>
  db.many(sql(targetRow)`
    select ${targetRow} from deployment_target
    where org_id = ${org_id} and deployment_id = any(${list(deployment_ids)}::text[]) and id = any(${list(ids)}::text[])
    order by id for update`);

export const getTargets = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(targetRow)`select ${targetRow} from deployment_target where org_id = ${org_id} and id = any(${list(ids)}::text[])`);

const namedTargetRow = row({ ...targetRow.columns, robot_name: text });
export type NamedTargetRow = RowOf<typeof namedTargetRow>;

export interface TargetFilter {
  status?: string | undefined;
  robot_id?: string | undefined;
  wave?: number | undefined;
  /** Part of the robot's name. */
  q?: string | undefined;
}

// The statuses are literals, so that the planner can use their partial index, which has few rows while updates succeed.
const ENDED_BADLY: Partial<Record<string, Statement<unknown>>> = {
  failed: sql`and deployment_target.status = 'failed'`,
  rolled_back: sql`and deployment_target.status = 'rolled_back'`,
  cancelled: sql`and deployment_target.status = 'cancelled'`,
};

/** Targets of a deployment, newest first, each with its robot's name; decommissioned robots keep their name. */
export const listTargetRows = (db: Db, caller: Caller, deployment_id: string, f: TargetFilter, { after, limit }: Window) =>
  // reads tables of other features: robot
  db.many(sql(namedTargetRow)`
    select ${targetRow.of("deployment_target")}, named.name as robot_name
    from deployment_target join robot named on named.org_id = deployment_target.org_id and named.id = deployment_target.robot_id
    where deployment_target.org_id = ${caller.org_id} and deployment_target.deployment_id = ${deployment_id} ${reachedTargets(caller)}
    ${f.status === undefined ? sql`` : (ENDED_BADLY[f.status] ?? sql`and deployment_target.status = ${f.status}`)}
    ${f.robot_id === undefined ? sql`` : sql`and deployment_target.robot_id = ${f.robot_id}`}
    ${f.wave === undefined ? sql`` : sql`and deployment_target.wave = ${f.wave}`}
    ${f.q === undefined ? sql`` : sql`and named.name ~ ${containing(f.q)}`}
    ${after === null ? sql`` : sql`and deployment_target.id < ${after}`}
    order by deployment_target.id desc limit ${limit}`);

export interface TargetChange {
  target: TargetRow;
  to: TargetStatus;
  reason: Reason | null;
  waiting_for?: WaitingFor | null;
  attempt?: number;
  deadline_at?: Date | null;
  not_before_at?: Date | null;
  dispatch_generation?: number | null;
  previous_release_id?: string | null;
  /** The tag of the target's release, for messages. Absent for configs and deleted releases. `moveAll` sets it for targets that are stored. */
  release_tag?: string | undefined;
  /** From this change on, the robot rolls back at the request of the server. */
  reverting?: true;
  /** Additional fields of the event's data. */
  data?: Record<string, unknown>;
  /** The actor of this change; absent: the actor of the whole call. */
  actor?: Actor;
}

/** The columns of a target that a change sets. */
export const afterChange = ({ target, ...c }: TargetChange) => ({
  status: c.to,
  reason: c.reason,
  waiting_for: c.waiting_for ?? null,
  attempt: c.attempt ?? target.attempt,
  deadline_at: c.deadline_at ?? null,
  not_before_at: c.not_before_at ?? null,
  dispatch_generation: c.dispatch_generation === undefined ? target.dispatch_generation : c.dispatch_generation,
  previous_release_id: c.previous_release_id === undefined ? target.previous_release_id : c.previous_release_id,
  reverting: c.reverting ?? target.reverting,
});

const changedRow = row({ id: text, release_tag: nullable(text) });
/**
 * Compare-and-set of targets. Those whose status or attempt has changed since they were read are left unchanged. Returns the changed ones with
 * the tags of their releases.
 */
export function changeTargets(db: Db, org_id: string, changes: readonly TargetChange[], now: Date) {
  const from = changes.map(({ target }) => target);
  const to = changes.map(afterChange);
  return db.many(sql(changedRow)`
    update deployment_target t set status = c.status, reason = c.reason, waiting_for = c.waiting_for, attempt = c.attempt, deadline_at = c.deadline_at,
      not_before_at = c.not_before_at, dispatch_generation = c.dispatch_generation, previous_release_id = c.previous_release_id, reverting = c.reverting, updated_at = ${now}
    from unnest(
      ${list(from.map((t) => t.id))}::text[], ${list(from.map((t) => t.status))}::text[], ${list(from.map((t) => t.attempt))}::int[],
      ${list(to.map((t) => t.status))}::text[], ${list(to.map((t) => t.reason))}::text[], ${list(to.map((t) => t.waiting_for))}::text[],
      ${list(to.map((t) => t.attempt))}::int[], ${list(to.map((t) => t.deadline_at))}::timestamptz[], ${list(to.map((t) => t.not_before_at))}::timestamptz[],
      ${list(to.map((t) => t.dispatch_generation))}::bigint[], ${list(to.map((t) => t.previous_release_id))}::text[], ${list(to.map((t) => t.reverting))}::boolean[]
    ) as c (id, from_status, from_attempt, status, reason, waiting_for, attempt, deadline_at, not_before_at, dispatch_generation, previous_release_id, reverting)
    where t.org_id = ${org_id} and t.id = c.id and t.status = c.from_status and t.attempt = c.from_attempt
    -- reads tables of other features: release
    returning t.id, (select r.tag from release r where r.org_id = t.org_id and r.id = t.release_id) as release_tag`);
}

/** Inserts targets of deployments that start, in their state after their first change. */
export const insertStarted = (db: Db, org_id: string, targets: readonly TargetRow[]) =>
  db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, reason, waiting_for, attempt, deadline_at,
      dispatch_generation, previous_release_id, created_at, updated_at)
    select ${org_id}, t.deployment_id, t.id, t.kind, t.robot_id, t.subject, t.release_id, t.status, t.reason, t.waiting_for, t.attempt, t.deadline_at,
      t.dispatch_generation, t.previous_release_id, t.created_at, t.updated_at
    from jsonb_to_recordset(${json(targets)}::jsonb) as t (deployment_id text, id text, kind text, robot_id text, subject text, release_id text, status text,
      reason text, waiting_for text, attempt int, deadline_at timestamptz, dispatch_generation bigint, previous_release_id text, created_at timestamptz, updated_at timestamptz)`);

/**
 * Sets what queued targets wait for. This does not change their status, so it writes no event. It uses no join: with outdated statistics,
 * PostgreSQL may read all targets of a deployment for a join (see `listOpenTargets`).
 */
export const setWaitingFor = (db: Db, org_id: string, ids: readonly string[], waiting_for: WaitingFor) =>
  db.run(sql`
    update deployment_target set waiting_for = ${waiting_for} where org_id = ${org_id} and id = any(${list(ids)}::text[]) and status = 'queued'`);

/**
 * Wakes targets that wait for these robots. The deadline of targets that roll back becomes `return_seconds` plus their verification time
 * from now.
 */
export const wakeWaitingForRobots = (db: Db, org_id: string, robot_ids: readonly string[], return_seconds: number, now: Date) =>
  db.run(sql`
    update deployment_target t set waiting_for = null, deadline_at = case when status = 'queued' then deadline_at else
      ${now}::timestamptz + make_interval(secs => ${return_seconds}::int + coalesce((
        select verify_seconds from robot_app a where a.org_id = t.org_id and a.robot_id = t.robot_id and a.app = t.subject and a.target_id = t.id), 0)) end
    where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) and ((status = 'queued' and waiting_for = 'robot_online') or (status = 'rolling_back' and reverting))`);

/** Wakes the selected queued targets. Skips locked ones, which are being ended or woken: waiting for the lock could deadlock. */
const wake = (db: Db, org_id: string, selected: Statement<unknown>) =>
  db.run(sql`
    with waiting as (
      select deployment_id, id from deployment_target where org_id = ${org_id} and status = 'queued' and ${selected}
      order by id for update skip locked)
    update deployment_target t set waiting_for = null from waiting w where t.org_id = ${org_id} and t.deployment_id = w.deployment_id and t.id = w.id`);

export const wakeWaitingForArtifact = (db: Db, org_id: string, release_id: string) =>
  wake(db, org_id, sql`release_id = ${release_id} and waiting_for = 'artifact'`);
export const wakeWaitingForPrevious = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  wake(db, org_id, sql`robot_id = any(${list(robot_ids)}::text[]) and waiting_for = 'previous_deployment'`);
export const wakeWaitingForApproval = (db: Db, org_id: string, robot_id: string) =>
  wake(db, org_id, sql`robot_id = ${robot_id} and waiting_for = 'approval'`);

/** What is published about a changed target. */
const seenRow = row({ deployment_id: text, kind: textOf<"release" | "config">(), status: textOf<TargetStatus>() });

/** Condition: the deployment of target t is cancelled or rolls back, so a robot that has changed nothing is asked to stop. */
const IS_ENDING = sql`exists (select from deployment d where d.org_id = t.org_id and d.id = t.deployment_id
  and (d.cancel_requested_at is not null or d.rollback_requested_at is not null))`;

/**
 * Stores download progress. It also restarts the step's timeout, unless the robot was asked to stop: then the deadline for its
 * acknowledgment stays. A robot that rolls back at the request of the server downloads its previous release, and progress only ever extends
 * its deadline.
 */
export const setProgress = (
  db: Db,
  org_id: string,
  p: { id: string; robot_id: string; attempt: number; progress: { bytes_done: number; bytes_total: number }; deadline_at: Date | null },
) =>
  db.many(sql(seenRow)`
    update deployment_target t set progress = ${json(p.progress)},
      deadline_at = case when reverting then greatest(deadline_at, ${p.deadline_at}) when ${IS_ENDING} then deadline_at else ${p.deadline_at} end
    where org_id = ${org_id} and id = ${p.id} and robot_id = ${p.robot_id} and attempt = ${p.attempt} and (status in ('dispatched', 'downloading') or (status = 'rolling_back' and reverting))
    returning deployment_id, kind, status`);

/**
 * Records that the robot delays the update. Until the robot begins, the only deadline of its target is that of the install window. Skips
 * robots that were asked to stop, because they must acknowledge that request. A requested rollback may be delayed until its deployment
 * expires. A rollback that the robot began itself may not, because no expiry ends it.
 */
export const setDelayedByRobot = (db: Db, org_id: string, t: { id: string; robot_id: string; attempt: number; waiting_for: WaitingFor }) =>
  db.many(sql(seenRow)`
    update deployment_target t set waiting_for = ${t.waiting_for}, deadline_at = (
      select a.install_until + interval '10 minutes' from robot_app a where a.org_id = t.org_id and a.robot_id = t.robot_id and a.app = t.subject and a.target_id = t.id)
    where org_id = ${org_id} and id = ${t.id} and robot_id = ${t.robot_id} and attempt = ${t.attempt} and deadline_at is not null
      and ((status = 'rolling_back' and reverting) or (status in ('dispatched', 'downloading', 'staged') and not ${IS_ENDING}))
    returning deployment_id, kind, status`);

/** Sets the deadline of staged targets and what they wait for: their window or, while the window is open, nothing. */
export const setWaitingForWindow = (db: Db, org_id: string, ids: readonly string[], waiting_for: "window" | null, deadline_at: Date) =>
  db.run(sql`
    update deployment_target set waiting_for = ${waiting_for}, deadline_at = ${deadline_at}
    where org_id = ${org_id} and id = any(${list(ids)}::text[]) and status = 'staged'`);

export const setDeadlines = (db: Db, org_id: string, ids: readonly string[], deadline_at: Date) =>
  db.run(sql`update deployment_target set deadline_at = ${deadline_at} where org_id = ${org_id} and id = any(${list(ids)}::text[])`);

export const robotStateRow = row({
  id: text,
  site_id: text,
  fleet_id: text,
  online: bool,
  decommissioned: bool,
  approved: bool,
  kinds: jsonb<string[]>(),
});
/** Reads robots for dispatch, locked against a connect or disconnect until the commit, so that no wake-up is missed. */
export const lockRobots = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(robotStateRow)`
    -- reads tables of other features: robot
    select id, site_id, fleet_id, node_id is not null as online, decommissioned_at is not null as decommissioned, approval_requested_at is null as approved, kinds from robot
    where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for share`);
