import type { HealthBody } from "@robofleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { bool, json, jsonb, nullable, row, sql, timestamptz } from "../../kernel/sql.ts";

/** Keeps the latest snapshot of a robot. One that was received later is never overwritten by an earlier one. */
export const putSnapshot = (db: Db, org_id: string, robot_id: string, snapshot: HealthBody, now: Date) =>
  db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot) values (${org_id}, ${robot_id}, ${now}, ${json(snapshot)})
    on conflict (org_id, robot_id) do update set received_at = excluded.received_at, snapshot = excluded.snapshot
      where health_snapshot.received_at <= excluded.received_at`);

const snapshotRow = row({ exists: bool, received_at: nullable(timestamptz), snapshot: nullable(jsonb<HealthBody>()) });
/** The robot's snapshot; no row when there is no such robot, nulls when it has not sent any. */
export const findSnapshot = (db: Db, org_id: string, robot_id: string) =>
  db.maybe(sql(snapshotRow)`
    -- reads: robot
    select true as exists, h.received_at, h.snapshot from robot r left join health_snapshot h on h.org_id = r.org_id and h.robot_id = r.id
    where r.org_id = ${org_id} and r.id = ${robot_id}`);
