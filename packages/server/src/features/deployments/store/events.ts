import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { json, sql } from "../../../kernel/sql.ts";
import { type EventRow, eventRow, reachedEvents } from "./rows.ts";

export type NewEvent = EventRow & { deployment_id: string };

/** Inserts events, in one batch with COMMIT if `db` is a transaction. */
export const insertEvents = (db: Db, org_id: string, events: readonly NewEvent[]): Promise<void> =>
  db.atCommit(sql`
    insert into deployment_event (org_id, deployment_id, seq, id, at, kind, status, target_status, robot_id, reason, message, actor, data)
    select ${org_id}, e.deployment_id, e.seq, e.id, e.at, e.kind, e.status, e.target_status, e.robot_id, e.reason, e.message, e.actor, e.data
    from jsonb_to_recordset(${json(events)}::jsonb)
      as e (deployment_id text, seq bigint, id text, at timestamptz, kind text, status text, target_status text, robot_id text, reason text, message text, actor jsonb, data jsonb)`);

export interface EventFilter {
  targets: boolean;
  robot_id?: string | undefined;
  after_seq: number;
}

/**
 * Selects events, oldest first. Without `targets` and without a robot, selects only the deployment's own events, which are few in any
 * fleet.
 */
export const listEventRows = (db: Db, caller: Caller, deployment_id: string, f: EventFilter, limit: number) =>
  db.many(sql(eventRow)`
    select ${eventRow} from deployment_event where org_id = ${caller.org_id} and deployment_id = ${deployment_id} and seq > ${f.after_seq} ${reachedEvents(caller)}
    ${f.robot_id === undefined ? (f.targets ? sql`` : sql`and robot_id is null`) : sql`and robot_id = ${f.robot_id}`}
    order by seq limit ${limit}`);
