import { type DeploymentStatus, type Reason, reportedArch } from "@roamfleet/protocol";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import type { Window } from "../../../kernel/page.ts";
import { bigint, bool, int, json, jsonb, list, nullable, row, type RowOf, sql, type Statement, text, textOf } from "../../../kernel/sql.ts";
import type { Counts } from "../state.ts";
import { type DeploymentKind, type DeploymentRow, deploymentRow, type ReasonCounts, reachedDeployments } from "./rows.ts";

export type NewDeployment = Pick<
  DeploymentRow,
  | "org_id"
  | "id"
  | "kind"
  | "target_kind"
  | "robot_id"
  | "fleet_id"
  | "target_selector"
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
    insert into deployment (org_id, id, kind, target_kind, robot_id, fleet_id, target_selector, release_id, app, namespace, revision, rollout, scheduled_at, status, expires_at, created_by, authority, count_total, fan_out_at, retry_of, rollback_of, event_seq, created_at, updated_at)
    values (${d.org_id}, ${d.id}, ${d.kind}, ${d.target_kind}, ${d.robot_id}, ${d.fleet_id}, ${json(d.target_selector ?? undefined)}, ${d.release_id}, ${d.app}, ${d.namespace}, ${d.revision}, ${json(d.rollout)}, ${d.scheduled_at},
      ${d.status}, ${d.expires_at}, ${json(d.created_by)}, ${json(d.authority ?? undefined)}, ${d.count_total}, ${d.fan_out_at}, ${d.retry_of}, ${d.rollback_of}, 1, ${now}, ${now})
    returning ${deploymentRow}`);

export const insertDue = (db: Db, org_id: string, id: string, due_at: Date) =>
  db.run(sql`insert into deployment_due (org_id, id, due_at) values (${org_id}, ${id}, ${due_at})`);
export const deleteDue = (db: Db, org_id: string, id: string) =>
  db.run(sql`delete from deployment_due where org_id = ${org_id} and id = ${id}`);

/**
 * Deletes the schedule rows of due deployments, so that only one node starts each. Ids that are not returned are already taken or not due.
 */
export const takeDue = (db: Db, org_id: string, ids: readonly string[], now: Date) =>
  db.many(
    sql(
      row({ id: text }),
    )`delete from deployment_due where org_id = ${org_id} and id = any(${list(ids)}::text[]) and due_at <= ${now} returning id`,
  );

/** Postpones a deployment that could not start. */
export const postponeDue = (db: Db, org_id: string, id: string, not_before_at: Date) =>
  db.run(sql`update deployment_due set not_before_at = ${not_before_at} where org_id = ${org_id} and id = ${id}`);

const drawnRow = row({ id: text, order_number: bigint });

/**
 * Draws and stores new order numbers for scheduled deployments that start now, in the order of their start times, then of their creation.
 * Returns the numbers; deployments that are no longer scheduled are left out. Call it before any of them starts, and start them in the order
 * of their numbers: another node may draw new numbers for those that have not started yet. Locks the rows in the order of their ids, like
 * every transaction that locks several rows.
 */
export const drawOrderNumbers = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(drawnRow)`
    with starting as materialized (
      select id, scheduled_at, order_number from deployment
      where org_id = ${org_id} and id = any(${list(ids)}::text[]) and status = 'scheduled' order by id for update),
    drawn as materialized (
      select id, nextval('order_number') as order_number from (select id from starting order by scheduled_at, starting.order_number) as in_order)
    update deployment d set order_number = drawn.order_number from drawn where d.org_id = ${org_id} and d.id = drawn.id
    returning d.id, d.order_number`);

/** Draws an order number for each of these deployments, in this order. The caller stores them. */
export const nextOrderNumbers = (db: Db, ids: readonly string[]) =>
  db.many(sql(drawnRow)`select id, nextval('order_number') as order_number from unnest(${list(ids)}::text[]) as d (id)`);

const expiryRow = row({ days: nullable(int) });
/** Returns the number of days after which the org's deployments expire. Null if the org has no such setting. */
export const expiryDays = async (db: Db, org_id: string): Promise<number | null> =>
  // reads tables of other features: org
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

/** Conditions by cause. Each has the same text as the condition of its partial index, so that the planner can use the index. */
const CAUSES = {
  request: sql`and (target_kind <> 'robot' or created_by ->> 'type' is distinct from 'system')`,
  follow: sql`and (target_kind = 'robot' and created_by ->> 'type' = 'system')`,
};

/** Lists deployments, newest first. `robot_id` finds those to this robot, and those to a selection with this robot. */
export const listDeploymentRows = (db: Db, caller: Caller, f: DeploymentFilter, { after, limit }: Window) => {
  const matching = (target: Statement<unknown>): Statement<unknown> => sql`
    select ${deploymentRow} from deployment where org_id = ${caller.org_id} and kind = ${f.kind} ${reachedDeployments(caller)} ${target}
    ${f.status === undefined ? sql`` : sql`and status = ${f.status}`}
    ${f.fleet_id === undefined ? sql`` : sql`and fleet_id = ${f.fleet_id}`}
    ${f.release_id === undefined ? sql`` : sql`and release_id = ${f.release_id}`}
    ${f.namespace === undefined ? sql`` : sql`and namespace = ${f.namespace}`}
    ${f.cause === undefined ? sql`` : CAUSES[f.cause]}
    ${f.since === undefined ? sql`` : sql`and created_at >= ${f.since}`}
    ${f.until === undefined ? sql`` : sql`and created_at < ${f.until}`}
    ${after === null ? sql`` : sql`and id < ${after}`}
    order by id desc limit ${limit}`;
  if (f.robot_id === undefined) return db.many(sql(deploymentRow)`${matching(sql``)}`);
  // A union, because each of its queries has an index. For one condition with "or", PostgreSQL reads all deployments of the org. For
  // "exists" instead of a subquery with a limit, it reads the targets of all robots.
  return db.many(sql(deploymentRow)`
    select ${deploymentRow} from (
      (${matching(sql`and robot_id = ${f.robot_id}`)})
      union all
      (${matching(sql`and target_kind = 'selection' and (
        select true from deployment_target t
        where t.org_id = deployment.org_id and t.deployment_id = deployment.id and t.robot_id = ${f.robot_id} limit 1)`)})
    ) as of_robot order by id desc limit ${limit}`);
};

export interface DeploymentUpdate {
  id: string;
  status: DeploymentStatus;
  reason: Reason | null;
  delta: Counts;
  /** New counts of ended targets by status and reason; absent: unchanged. */
  reason_counts?: ReasonCounts;
  /** Targets dispatched for the first time; absent: none. */
  dispatched?: number;
  /** What the policy requires because too many robots failed. */
  halt?: "stop" | "pause" | "rollback" | null;
  /** When the rollout is checked next; null or absent: unchanged. */
  step_at?: Date | null;
  events: number;
  started_at: Date | null;
  finished_at: Date | null;
  /** The columns that the start of a scheduled deployment to one robot sets; unchanged if absent. */
  order_number?: number;
  expires_at?: Date | null;
  fan_out_at?: Date | null;
}

/** The columns that `updateDeployments` sets. The caller has the others: reading all of a hundred rows takes a considerable part of a ms. */
const updatedRow = deploymentRow.only(
  "id",
  "status",
  "reason",
  "event_seq",
  "count_total",
  "count_pending",
  "count_queued",
  "count_active",
  "count_applied",
  "count_failed",
  "count_rolled_back",
  "count_cancelled",
  "count_dispatched",
  "step_at",
  "stop_requested_at",
  "rollback_requested_at",
  "paused_at",
  "reason_counts",
  "fan_out_at",
  "fan_out_done_at",
  "fan_out_cursor",
  "started_at",
  "finished_at",
  "updated_at",
);

/**
 * Changes the counters of deployments by `delta` and reserves event numbers. The caller has locked the rows. Returns the columns that may
 * have changed; order numbers and expiries are those of the update.
 */
export const updateDeployments = (db: Db, org_id: string, updates: readonly DeploymentUpdate[], now: Date) =>
  db.many(sql(updatedRow)`
    update deployment d set status = u.status, reason = u.reason, event_seq = d.event_seq + u.events,
      count_total = d.count_total + u.total, count_pending = d.count_pending + u.pending, count_queued = d.count_queued + u.queued, count_active = d.count_active + u.active,
      count_applied = d.count_applied + u.applied, count_failed = d.count_failed + u.failed, count_rolled_back = d.count_rolled_back + u.rolled_back,
      count_cancelled = d.count_cancelled + u.cancelled, count_dispatched = d.count_dispatched + coalesce(u.dispatched, 0), step_at = coalesce(u.step_at, d.step_at),
      stop_requested_at = coalesce(d.stop_requested_at, case u.halt when 'stop' then ${now}::timestamptz end),
      rollback_requested_at = coalesce(d.rollback_requested_at, case u.halt when 'rollback' then ${now}::timestamptz end),
      paused_at = coalesce(d.paused_at, case u.halt when 'pause' then ${now}::timestamptz end),
      reason_counts = coalesce(u.reason_counts, d.reason_counts),
      order_number = coalesce(u.order_number, d.order_number), expires_at = coalesce(u.expires_at, d.expires_at),
      fan_out_at = coalesce(u.fan_out_at, d.fan_out_at), fan_out_done_at = coalesce(u.fan_out_at, d.fan_out_done_at),
      fan_out_cursor = case when u.fan_out_at is null then d.fan_out_cursor else d.robot_id end,
      started_at = coalesce(d.started_at, u.started_at), finished_at = coalesce(d.finished_at, u.finished_at), updated_at = ${now}
    from jsonb_to_recordset(${json(updates.map(({ delta, ...update }) => ({ ...update, ...delta })))}::jsonb)
      as u (id text, status text, reason text, events int, total int, pending int, queued int, active int, applied int, failed int, rolled_back int, cancelled int,
        dispatched int, step_at timestamptz, halt text, reason_counts jsonb, started_at timestamptz, finished_at timestamptz,
        order_number bigint, expires_at timestamptz, fan_out_at timestamptz)
    where d.org_id = ${org_id} and d.id = u.id
    returning ${updatedRow.of("d")}`);

/** The columns that requests, the fan-out and the rollout set. */
const PATCHED = deploymentRow.only(
  "authority",
  "cancel_requested_at",
  "cancel_mode",
  "rollback_requested_at",
  "paused_at",
  "failures_accepted",
  "gate_accepted_at",
  "fan_out_at",
  "fan_out_cursor",
  "fan_out_done_at",
  "expires_at",
  "count_total",
  "count_pending",
  "count_queued",
  "wave_to_assign",
  "wave_count",
  "current_wave",
  "wave_passed_at",
  "promoted_wave",
  "step_at",
  "updated_at",
);

/** Sets the columns in `patch` and returns the row. The caller has locked the row of the deployment. */
export const patchDeployment = (
  db: Db,
  { org_id, id }: Pick<DeploymentRow, "org_id" | "id">,
  patch: Partial<RowOf<typeof PATCHED>>,
): Promise<DeploymentRow> =>
  db.one(sql(deploymentRow)`
    update deployment d set (${PATCHED}) = (select ${PATCHED.of("p")} from jsonb_populate_record(d, ${json(patch)}::jsonb) as p)
    where d.org_id = ${org_id} and d.id = ${id}
    returning ${deploymentRow.of("d")}`);

/** Selects the robots of a fleet that a deployment includes. */
export interface Membership {
  fleet_id: string;
  /** Order number of the deployment: robots that joined after it started are excluded. */
  before: number;
  /**
   * The architecture of the release, as robots report it. Null if the release is for any architecture. Otherwise, robots that reported no
   * architecture are excluded.
   */
  arch: string | null;
}

const ofMembers = (org_id: string, { fleet_id, before, arch }: Membership) => sql`
  -- reads tables of other features: robot
  from robot where org_id = ${org_id} and fleet_id = ${fleet_id} and decommissioned_at is null and fleet_order_number < ${before}
    and (${arch}::text is null or platform ->> 'arch' = ${arch})`;

/** Selects members of a fleet after a cursor, with the release that they get. */
export const selectMembers = (org_id: string, membership: Membership, release_id: string | null, after: string, limit: number) =>
  sql`select id as robot_id, ${release_id}::text as release_id ${ofMembers(org_id, membership)} and id > ${after} order by id limit ${limit}`;

export const countMembers = (db: Db, org_id: string, membership: Membership) =>
  db.one(sql(row({ count: int }))`select count(*)::int as count ${ofMembers(org_id, membership)}`);

/** Returns the architecture that a release of kind `agent` is for, as robots report it; null for other kinds. */
export const findAgentArch = async (db: Db, org_id: string, release_id: string | null): Promise<string | null> => {
  const found = await db.maybe(sql(row({ arch: nullable(text) }))`
    -- reads tables of other features: release
    select manifest ->> 'arch' as arch from release where org_id = ${org_id} and id = ${release_id} and kind = 'agent'`);
  return found?.arch == null ? null : reportedArch(found.arch);
};

export const deploymentReleaseRow = row({
  id: text,
  tag: text,
  kind: text,
  app: text,
  artifact_state: textOf<"awaiting_upload" | "stored" | "external">(),
});
/** A release with all fields that its signature covers. */
const signedReleaseRow = row({
  ...deploymentReleaseRow.columns,
  artifact_sha256: text,
  artifact_size: bigint,
  image: nullable(text),
  manifest: nullable(jsonb<unknown>()),
  signature: nullable(jsonb<unknown>()),
});
/** Finds a release by its id or tag, and locks it against deletion until the transaction ends. */
export const findRelease = (db: Db, org_id: string, name: string) =>
  db.maybe(sql(signedReleaseRow)`
    -- reads tables of other features: release
    select ${signedReleaseRow} from release where org_id = ${org_id} and (id = ${name} or tag = ${name}) order by (id = ${name}) desc limit 1 for key share`);

/** Returns those of these releases that exist, and locks them against deletion until the transaction ends. */
export const lockSignedReleases = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(signedReleaseRow)`
    -- reads tables of other features: release
    select ${signedReleaseRow} from release where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for key share`);

export const listReleases = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(deploymentReleaseRow)`
    -- reads tables of other features: release
    select ${deploymentReleaseRow} from release where org_id = ${org_id} and id = any(${list(ids)}::text[])`);

export const findTargetRobot = (db: Db, org_id: string, id: string) =>
  db.maybe(sql(row({ id: text, decommissioned: bool }))`
    -- reads tables of other features: robot
    select id, decommissioned_at is not null as decommissioned from robot where org_id = ${org_id} and id = ${id}`);

export const fleetExists = async (db: Db, org_id: string, id: string): Promise<boolean> =>
  (await db.maybe(sql(row({ id: text }))`
    -- reads tables of other features: fleet
    select id from fleet where org_id = ${org_id} and id = ${id}`)) !== undefined;

/** Whether a robot in service runs the release, is to run it or may roll back to it, or a deployment of it is open. */
export const releaseIsDeployed = async (db: Db, org_id: string, release_id: string): Promise<boolean> =>
  (
    await db.one(sql(row({ used: bool }))`
      -- reads tables of other features: robot
      select exists (select 1 from robot_app a join robot r on r.org_id = a.org_id and r.id = a.robot_id and r.decommissioned_at is null
          where a.org_id = ${org_id} and (a.current_release_id = ${release_id} or a.desired_release_id = ${release_id} or a.previous_release_id = ${release_id}))
        or exists (select 1 from deployment where org_id = ${org_id} and release_id = ${release_id} and finished_at is null) as used`)
  ).used;
