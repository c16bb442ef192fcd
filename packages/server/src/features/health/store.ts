import type { HealthBody } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { bool, int, jsonb, list, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

/** Maximum time after a robot reconnects in which its replaced connection may still deliver older snapshots. */
const LATE_MS = 60_000;

const keptRow = row({ robot_id: text, state_before: nullable(text), failing_before: nullable(int) });
export type Kept = RowOf<typeof keptRow>;

/** The result of a snapshot's checks. */
export interface Verdict {
  state: "ok" | "failing";
  /** The failing checks, as text for users. */
  failing: string[];
}

export interface NewSnapshot {
  robot_id: string;
  snapshot: HealthBody;
  /** Whether the lists of ROS names stay as in the stored snapshot. */
  keeps_ros?: boolean;
  verdict: Verdict;
}

/**
 * Stores the latest snapshots of distinct robots. For a minute, a stored snapshot is not overwritten by an earlier one of the same boot, as
 * determined by the uptime. After a minute, any snapshot overwrites it, so that wrong clocks cannot block a robot's health. Returns the
 * previous verdict of each robot, or null if it had none. Omits robots whose snapshot was not stored. Locks rows in order of robot, so that
 * concurrent calls do not deadlock.
 */
export const putSnapshots = (db: Db, org_id: string, snapshots: readonly NewSnapshot[], now: Date): Promise<Kept[]> =>
  db.many(sql(keptRow)`
    with v as (
      select * from unnest(${list(snapshots.map(({ robot_id }) => robot_id))}::text[], ${list(snapshots.map(({ snapshot }) => JSON.stringify(snapshot)))}::text[],
        ${list(snapshots.map(({ verdict }) => verdict.state))}::text[], ${list(snapshots.map(({ verdict }) => JSON.stringify(verdict.failing)))}::text[],
        ${list(snapshots.map(({ keeps_ros }) => keeps_ros === true))}::bool[])
        as v (robot_id, snapshot, state, failing, keeps_ros)),
    before as (
      select h.robot_id, h.state, jsonb_array_length(h.failing) as failing,
        case when v.keeps_ros then jsonb_build_object('ros', h.snapshot->'ros')
          || case when h.snapshot ? 'ros_adapters' then jsonb_build_object('ros_adapters', h.snapshot->'ros_adapters') else '{}' end end as ros
      from v join health_snapshot h on h.org_id = ${org_id} and h.robot_id = v.robot_id),
    kept as (
      insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
      select ${org_id}, v.robot_id, ${now}::timestamptz, v.snapshot::jsonb || coalesce(before.ros, '{}'), v.state, v.failing::jsonb
      from v left join before using (robot_id) order by v.robot_id
      on conflict (org_id, robot_id) do update set received_at = excluded.received_at, snapshot = excluded.snapshot,
          state = excluded.state, failing = excluded.failing
        where health_snapshot.received_at < ${new Date(now.getTime() - LATE_MS)} or health_snapshot.received_at > ${new Date(now.getTime() + LATE_MS)}
          or (health_snapshot.received_at <= excluded.received_at and (
            health_snapshot.snapshot->>'boot_id' <> excluded.snapshot->>'boot_id'
            or (health_snapshot.snapshot->>'uptime_seconds')::float8 <= (excluded.snapshot->>'uptime_seconds')::float8))
      returning robot_id)
    select kept.robot_id, before.state as state_before, before.failing as failing_before from kept left join before using (robot_id)`);

const snapshotRow = row({ exists: bool, received_at: nullable(timestamptz), snapshot: nullable(jsonb<HealthBody>()) });
/** A robot's snapshot. There is no row if the robot does not exist. The fields are null if the robot has sent no snapshot. */
export type SnapshotRow = RowOf<typeof snapshotRow>;
export const findSnapshot = (db: Db, org_id: string, robot_id: string) =>
  db.maybe(sql(snapshotRow)`
    -- reads tables of other features: robot
    select true as exists, h.received_at, h.snapshot from robot r left join health_snapshot h on h.org_id = r.org_id and h.robot_id = r.id
    where r.org_id = ${org_id} and r.id = ${robot_id}`);

const batchRow = row({ first_at: timestamptz, points: text });

export interface NewBatch {
  org_id: string;
  robot_id: string;
  first_at: Date;
  last_at: Date;
  /** The points in the encoding of `pack`. */
  points: string;
}

/**
 * Inserts batches of any number of robots in one statement. A row may exist already, if an earlier attempt was committed but its success
 * was not confirmed. Then the batch replaces the row, because it contains the row's points and those added since.
 */
export const insertBatches = (db: Db, batches: readonly NewBatch[]): Promise<number> =>
  db.run(sql`
    insert into health_history (org_id, robot_id, first_at, last_at, points)
    select * from unnest(${list(batches.map((b) => b.org_id))}::text[], ${list(batches.map((b) => b.robot_id))}::text[],
      ${list(batches.map((b) => b.first_at))}::timestamptz[], ${list(batches.map((b) => b.last_at))}::timestamptz[], ${list(batches.map((b) => b.points))}::text[])
    on conflict (org_id, robot_id, first_at) do update set last_at = excluded.last_at, points = excluded.points
      where health_history.last_at < excluded.last_at`);

/** Returns batches that may contain points from `since` to `until`, oldest first. Skips batches that begin before `earliest`. */
export const selectBatches = (
  db: Db,
  org_id: string,
  robot_id: string,
  { earliest, since, until }: { earliest: Date; since: Date; until: Date },
): Promise<RowOf<typeof batchRow>[]> =>
  db.many(sql(batchRow)`
    select ${batchRow} from health_history
    where org_id = ${org_id} and robot_id = ${robot_id} and first_at >= ${earliest} and first_at < ${until} and last_at >= ${since}
    order by first_at`);
