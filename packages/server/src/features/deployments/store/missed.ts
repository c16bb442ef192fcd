import type { WaitingFor } from "@roamfleet/protocol";
import type { Db } from "../../../kernel/db.ts";
import { list, row, type RowOf, sql, type Statement, text } from "../../../kernel/sql.ts";

/** Maximum targets that the repair loop wakes per condition and run. */
export const MISSED_PER_TURN = 1_000;

const refRow = row({ org_id: text, deployment_id: text, id: text });
export type TargetRef = RowOf<typeof refRow>;

/**
 * For each condition: when a waiting target t may continue although nothing woke it. The wake-up was lost, or came while another
 * transaction had locked the target.
 */
const MISSED = {
  robot_online: sql`-- reads: robot
    join robot r on r.org_id = t.org_id and r.id = t.robot_id where r.node_id is not null`,
  artifact: sql`-- reads: release
    join release r on r.org_id = t.org_id and r.id = t.release_id where r.artifact_state <> 'awaiting_upload'`,
  previous_deployment: sql`where not exists (
    select from deployment_target o where o.org_id = t.org_id and o.robot_id = t.robot_id and o.kind = t.kind
      and o.status not in ('applied', 'failed', 'rolled_back', 'cancelled') and o.status in ('installing', 'verifying', 'rolling_back'))`,
  approval: sql`-- reads: robot
    join robot r on r.org_id = t.org_id and r.id = t.robot_id where r.approval_requested_at is null`,
} satisfies Partial<Record<WaitingFor, Statement<unknown>>>;
export type Missable = keyof typeof MISSED;
export const MISSABLE = Object.keys(MISSED) as Missable[];

/** Targets of any org whose awaited condition already holds, without those in `skip`. */
export const listMissed = (db: Db, waiting_for: Missable, skip: readonly string[]) =>
  db.many(sql(refRow)`
    select t.org_id, t.deployment_id, t.id from deployment_target t ${MISSED[waiting_for]}
      and t.status = 'queued' and t.waiting_for = ${waiting_for} and t.id <> all(${list(skip)}::text[])
    limit ${MISSED_PER_TURN}`);

/** Wakes these targets unless they changed; skips those that another transaction has locked. Returns how many. */
export const wakeMissed = (db: Db, waiting_for: Missable, targets: readonly TargetRef[]) =>
  db.run(sql`
    with missed as (
      select t.org_id, t.deployment_id, t.id
      from unnest(${list(targets.map((t) => t.org_id))}::text[], ${list(targets.map((t) => t.deployment_id))}::text[], ${list(targets.map((t) => t.id))}::text[])
        as m (org_id, deployment_id, id)
      join deployment_target t on t.org_id = m.org_id and t.deployment_id = m.deployment_id and t.id = m.id
      where t.status = 'queued' and t.waiting_for = ${waiting_for}
      for update of t skip locked)
    update deployment_target t set waiting_for = null from missed m where t.org_id = m.org_id and t.deployment_id = m.deployment_id and t.id = m.id`);
