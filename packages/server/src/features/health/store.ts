import type { HealthBody } from "@robofleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { bool, json, jsonb, nullable, row, sql, timestamptz } from "../../kernel/sql.ts";

/** A link that was replaced may deliver what it still held this long after the newer one. */
const LATE_MS = 60_000;

/**
 * Keeps the latest snapshot of a robot. What comes late over an older link does not overwrite what came over the newer
 * one: within a boot the uptime tells which is older. Only for a minute: then whatever comes is news, whatever the clocks
 * of robot and server have done.
 */
export const putSnapshot = (db: Db, org_id: string, robot_id: string, snapshot: HealthBody, now: Date): Promise<number> =>
  db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot) values (${org_id}, ${robot_id}, ${now}, ${json(snapshot)})
    on conflict (org_id, robot_id) do update set received_at = excluded.received_at, snapshot = excluded.snapshot
      where health_snapshot.received_at < ${new Date(now.getTime() - LATE_MS)} or health_snapshot.received_at > ${new Date(now.getTime() + LATE_MS)}
        or (health_snapshot.received_at <= excluded.received_at and (
          health_snapshot.snapshot->>'boot_id' <> excluded.snapshot->>'boot_id'
          or (health_snapshot.snapshot->>'uptime_seconds')::float8 <= (excluded.snapshot->>'uptime_seconds')::float8))`);

const snapshotRow = row({ exists: bool, received_at: nullable(timestamptz), snapshot: nullable(jsonb<HealthBody>()) });
/** The robot's snapshot; no row when there is no such robot, nulls when it has not sent any. */
export const findSnapshot = (db: Db, org_id: string, robot_id: string) =>
  db.maybe(sql(snapshotRow)`
    -- reads: robot
    select true as exists, h.received_at, h.snapshot from robot r left join health_snapshot h on h.org_id = r.org_id and h.robot_id = r.id
    where r.org_id = ${org_id} and r.id = ${robot_id}`);
