import type { Db } from "../../../kernel/db.ts";
import { list, row, sql, text } from "../../../kernel/sql.ts";

/** Whether the robot is approved, and so receives secrets. */
export const isApproved = async (db: Db, org_id: string, robot_id: string): Promise<boolean> =>
  (await listUnapproved(db, org_id, [robot_id])).length === 0;

/** Returns those of the robots that are not approved, and so receive no secrets. */
export const listUnapproved = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ id: text }))`
    -- reads: robot
    select id from robot where org_id = ${org_id} and id = any(${list(robot_ids)}::text[]) and approval_requested_at is not null`);
