import type { Db } from "../../../kernel/db.ts";
import { bool, int, json, list, row, sql, type Statement, text } from "../../../kernel/sql.ts";
import type { Counts } from "../state.ts";
import { type DeploymentRow, targetRow, waveRow } from "./rows.ts";

export type WaveDelta = Counts & { wave: number };

/**
 * Changes the counters of these waves by `deltas`, and returns the waves. Skips a wave whose row is not inserted yet, because the insert
 * counts the wave's targets.
 */
export const moveWaveCounters = (db: Db, org_id: string, deployment_id: string, deltas: readonly WaveDelta[]) =>
  db.many(sql(waveRow)`
    update deployment_wave w set count_pending = w.count_pending + c.pending, count_queued = w.count_queued + c.queued, count_active = w.count_active + c.active,
      count_applied = w.count_applied + c.applied, count_failed = w.count_failed + c.failed, count_rolled_back = w.count_rolled_back + c.rolled_back,
      count_cancelled = w.count_cancelled + c.cancelled
    from jsonb_to_recordset(${json(deltas)}::jsonb)
      as c (wave int, pending int, queued int, active int, applied int, failed int, rolled_back int, cancelled int)
    where w.org_id = ${org_id} and w.deployment_id = ${deployment_id} and w.wave = c.wave
    returning ${waveRow.of("w")}`);

/** Counts the targets that are assigned to one of the policy's waves. */
export const countAssigned = (db: Db, org_id: string, deployment_id: string, waves: number) =>
  db.one(sql(row({ count: int }))`
    select count(*)::int as count from deployment_target where org_id = ${org_id} and deployment_id = ${deployment_id} and wave < ${waves}`);

/** Moves up to `limit` unassigned targets from the last, implicit wave (`rest`) to this wave, in the order of their robots. */
export const assignToWave = (
  db: Db,
  org_id: string,
  deployment_id: string,
  w: { wave: number; rest: number; labels: Readonly<Record<string, string>> | undefined; limit: number },
) =>
  db.run(sql`
    -- By an array: a join would be planned with statistics that do not include rows written a moment ago.
    update deployment_target set wave = ${w.wave} where org_id = ${org_id} and id = any(array(
      select t.id from deployment_target t
      where t.org_id = ${org_id} and t.deployment_id = ${deployment_id} and t.status = 'pending' and t.wave = ${w.rest}
        ${
          w.labels === undefined
            ? sql``
            : sql`-- reads tables of other features: robot
          and exists (select from robot r where r.org_id = t.org_id and r.id = t.robot_id and r.labels @> ${json(w.labels)}::jsonb)`
        }
      order by t.robot_id limit ${w.limit} for update of t))`);

/** Inserts the waves with their current counters; the last, implicit one only if it has robots. Returns the number of waves. */
export const insertWaves = (db: Db, org_id: string, deployment_id: string, rest: number) =>
  db.run(sql`
    insert into deployment_wave (org_id, deployment_id, wave, size, count_pending, count_queued, count_active, count_applied, count_failed, count_rolled_back, count_cancelled)
    select ${org_id}, ${deployment_id}, g.wave, count(t.id), count(t.id) filter (where t.status = 'pending'), count(t.id) filter (where t.status = 'queued'),
      count(t.id) filter (where t.status in ('dispatched', 'downloading', 'staged', 'installing', 'verifying', 'rolling_back')),
      count(t.id) filter (where t.status = 'applied'), count(t.id) filter (where t.status = 'failed'), count(t.id) filter (where t.status = 'rolled_back'),
      count(t.id) filter (where t.status = 'cancelled')
    from generate_series(0, ${rest}::int) as g (wave)
    left join deployment_target t on t.org_id = ${org_id} and t.deployment_id = ${deployment_id} and t.wave = g.wave
    group by g.wave having g.wave < ${rest} or count(t.id) > 0`);

export const listWaves = (db: Db, org_id: string, deployment_id: string) =>
  db.many(sql(waveRow)`select ${waveRow} from deployment_wave where org_id = ${org_id} and deployment_id = ${deployment_id} order by wave`);

export const getWave = (db: Db, org_id: string, deployment_id: string, wave: number) =>
  db.maybe(
    sql(waveRow)`select ${waveRow} from deployment_wave where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = ${wave}`,
  );

const queuedRow = row({ blocked: int, gated: int });
/**
 * Counts the queued targets of the wave that do not wait for their robot to connect or for its approval (`blocked`), and those that wait for
 * the gate (`gated`).
 */
export const countQueued = (db: Db, org_id: string, deployment_id: string, wave: number) =>
  db.one(sql(queuedRow)`
    select count(*) filter (where (waiting_for in ('robot_online', 'approval')) is not true)::int as blocked, count(*) filter (where waiting_for = 'gate')::int as gated
    from deployment_target where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = ${wave} and status = 'queued'`);

/** Counts the queued targets of each wave that wait for their robot to connect; waves without any are left out. */
export const countOffline = (db: Db, org_id: string, deployment_id: string) =>
  db.many(sql(row({ wave: int, count: int }))`
    select wave, count(*)::int as count from deployment_target
    where org_id = ${org_id} and deployment_id = ${deployment_id} and status = 'queued' and waiting_for = 'robot_online' group by wave`);

/** Locks the next targets of a wave that are not opened yet. */
export const lockPending = (db: Db, org_id: string, deployment_id: string, wave: number, limit: number) =>
  db.many(sql(targetRow)`
    select ${targetRow} from deployment_target where org_id = ${org_id} and deployment_id = ${deployment_id} and status = 'pending' and wave = ${wave}
    order by robot_id limit ${limit} for update`);

/**
 * Releases at most `limit` targets that wait for `held`, in the order of their waves: they wait for `next` instead or, if that is null, for
 * nothing. Returns how many were released.
 */
export const releaseHeld = (
  db: Db,
  { org_id, id }: Pick<DeploymentRow, "org_id" | "id">,
  held: "gate" | "slot",
  next: "slot" | null,
  limit: number,
) =>
  db.run(sql`
    update deployment_target set waiting_for = ${next} where org_id = ${org_id} and id = any(array(
      select id from deployment_target
      where org_id = ${org_id} and deployment_id = ${id} and waiting_for = ${held === "gate" ? sql`'gate'` : sql`'slot'`} and status = 'queued'
      order by wave, id limit ${limit} for update))`);

export const setWaveTimes = (
  db: Db,
  org_id: string,
  deployment_id: string,
  wave: number,
  times: { opened_at: Date } | { passed_at: Date | null },
) =>
  db.run(
    "opened_at" in times
      ? sql`update deployment_wave set opened_at = coalesce(opened_at, ${times.opened_at}) where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = ${wave}`
      : sql`update deployment_wave set passed_at = ${times.passed_at} where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = ${wave}`,
  );

/** Name of the group of the robot `r`: by `site` or `label:KEY`; without `group_by` all robots are one group. */
function groupName(group_by: string | undefined): Statement<unknown> {
  if (group_by === undefined) return sql`''`;
  return group_by === "site" ? sql`r.site_id` : sql`coalesce(r.labels ->> ${group_by.slice("label:".length)}::text, '')`;
}

/** The deployment's targets `t` with their robots `r` that are in service. */
const members = (org_id: string, deployment_id: string) => sql`
  -- reads tables of other features: robot, health_snapshot
  from deployment_target t join robot r on r.org_id = t.org_id and r.id = t.robot_id and r.decommissioned_at is null
  left join health_snapshot h on h.org_id = t.org_id and h.robot_id = t.robot_id
  where t.org_id = ${org_id} and t.deployment_id = ${deployment_id}`;

/** Condition: the robot is not connected, has the health status `error`, or is being updated by this deployment. */
const UNAVAILABLE = sql`(r.node_id is null or h.snapshot ->> 'status' = 'error' or t.status in ('dispatched', 'downloading', 'staged', 'installing', 'verifying', 'rolling_back')) is true`;

const groupRow = row({ name: text, size: int, unavailable: int });
export const listGroups = (db: Db, org_id: string, deployment_id: string, group_by: string | undefined) =>
  db.many(sql(groupRow)`
    select ${groupName(group_by)} as name, count(*)::int as size, count(*) filter (where ${UNAVAILABLE})::int as unavailable ${members(org_id, deployment_id)}
    group by 1`);

const memberRow = row({ id: text, name: text, unavailable: bool });
export const listMembersOfGroups = (db: Db, org_id: string, deployment_id: string, group_by: string | undefined, ids: readonly string[]) =>
  db.many(sql(memberRow)`
    select t.id, ${groupName(group_by)} as name, ${UNAVAILABLE} as unavailable ${members(org_id, deployment_id)} and t.id = any(${list(ids)}::text[])`);

/**
 * Wakes at most `limit` targets that wait for a slot, and returns how many. Of each group, wakes as many available robots as the group has
 * room for; a negative room means that too many robots are unavailable. Robots that are already unavailable use no room. Offline robots are
 * always woken, so that they wait for their connection and not for a slot. Connected but unhealthy robots are woken unless the room is
 * negative.
 */
export const wakeGroups = (
  db: Db,
  org_id: string,
  deployment_id: string,
  group_by: string | undefined,
  rooms: readonly { name: string; room: number }[],
  limit: number,
) =>
  db.run(sql`
    with waiting as (
      select t.id, t.wave, ${groupName(group_by)} as name, r.node_id is null as offline, ${UNAVAILABLE} as unavailable,
        row_number() over (partition by ${groupName(group_by)}, ${UNAVAILABLE} order by t.wave, t.id) as place
      ${members(org_id, deployment_id)} and t.status = 'queued' and t.waiting_for = 'slot'),
    chosen as (
      select w.id from waiting w join unnest(${list(rooms.map(({ name }) => name))}::text[], ${list(rooms.map(({ room }) => room))}::int[]) as g (name, room) on g.name = w.name
      where w.offline or (w.unavailable and g.room >= 0) or (not w.unavailable and w.place <= g.room) order by w.wave, w.id limit ${limit})
    update deployment_target t set waiting_for = null from chosen c where t.org_id = ${org_id} and t.deployment_id = ${deployment_id} and t.id = c.id`);
