import type { Db } from "../../../kernel/db.ts";
import { json, list, sql } from "../../../kernel/sql.ts";
import { deploymentRow } from "./rows.ts";

/** A scheduled deployment of a release to one robot, with the new id of its target. */
export interface LeavesShelf {
  id: string;
  target_id: string;
  expires_at: Date;
}

/**
 * Draws new order numbers for scheduled deployments that start now, in the order of their start times, then of their creation. Locks their
 * rows in the order of ids, like every transaction that locks several.
 */
export const drawOrderNumbers = (db: Db, org_id: string, ids: readonly string[]) =>
  db.run(sql`
    with starting as materialized (
      select id, scheduled_at, order_number from deployment
      where org_id = ${org_id} and id = any(${list(ids)}::text[]) and status = 'scheduled' order by id for update),
    drawn as materialized (
      select id, nextval('order_number') as order_number from (select id from starting order by scheduled_at, starting.order_number) as in_order)
    update deployment d set order_number = drawn.order_number from drawn where d.org_id = ${org_id} and d.id = drawn.id`);

/** Queues these deployments, each with its one target. Returns their rows; the caller has locked them and writes their events. */
export async function leaveShelf(db: Db, org_id: string, leaving: readonly LeavesShelf[], now: Date) {
  const rows = json(leaving.map(({ id, target_id, expires_at }) => ({ leaves: id, target_id, gives_up_at: expires_at })));
  const queued = await db.many(sql(deploymentRow)`
    update deployment set status = 'queued', event_seq = event_seq + 1, fan_out_at = ${now}, fan_out_done_at = ${now}, fan_out_cursor = robot_id,
      expires_at = l.gives_up_at, count_total = 1, count_queued = 1, updated_at = ${now}
    from jsonb_to_recordset(${rows}::jsonb) as l (leaves text, gives_up_at timestamptz)
    where org_id = ${org_id} and id = l.leaves and status = 'scheduled'
    returning ${deploymentRow}`);
  await db.run(sql`
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, created_at, updated_at)
    select d.org_id, d.id, l.target_id, d.kind, d.robot_id, coalesce(d.app, 'main'), d.release_id, 'queued', ${now}, ${now}
    from deployment d join jsonb_to_recordset(${rows}::jsonb) as l (leaves text, target_id text) on l.leaves = d.id where d.org_id = ${org_id}`);
  return queued;
}
