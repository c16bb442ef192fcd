import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { equals, json, list, row, sql, type Statement, text } from "../../kernel/sql.ts";
import { type BatchFilter, type BatchKey, type BatchRow, batchRow, matching } from "./store.ts";

export interface RobotFilter {
  site_id: string | undefined;
  fleet_id: string | undefined;
  robot_id: string | undefined;
  labels: readonly { key: string; value: string }[];
}

const hasLabels = (labels: RobotFilter["labels"]): Statement<unknown>[] =>
  labels.map(({ key, value }) => sql`and r.labels @> ${json({ [key]: value })}::jsonb`);

/** Returns the query for the ids of matching robots that the caller may see. A decommissioned robot must be named. */
function searchedRobots(caller: Caller, { site_id, fleet_id, robot_id, labels }: RobotFilter): Statement<unknown> {
  let conditions = sql`${visible(caller, "r.site_id", "r.fleet_id")} ${equals({ "r.site_id": site_id, "r.fleet_id": fleet_id, "r.id": robot_id })}`;
  for (const condition of hasLabels(labels)) conditions = sql`${conditions} ${condition}`;
  // reads tables of other features: robot
  return sql`
    select r.id from robot r
    where r.org_id = ${caller.org_id} ${robot_id === undefined ? sql`and r.decommissioned_at is null` : sql``} ${conditions}`;
}

export interface SearchWindow {
  /** The first batch to read; undefined reads from the newest one. */
  from: BatchKey | undefined;
  not_before: Date;
  limit: number;
}

/** Returns the batches of matching robots that were received in a period, newest first. */
export const searchedBatches = (
  db: Db,
  caller: Caller,
  robots: RobotFilter,
  filter: BatchFilter,
  { from, not_before, limit }: SearchWindow,
): Promise<BatchRow[]> =>
  db.many(sql(batchRow)`
    select ${batchRow} from log_batch
    where org_id = ${caller.org_id} and robot_id = any (array(${searchedRobots(caller, robots)}))
      ${from === undefined ? sql`` : sql`and (received_at, robot_id, first_seq) <= (${from.received_at}, ${from.robot_id}, ${from.first_seq}) and received_at <= ${from.received_at}`}
      and received_at >= ${not_before} ${matching(filter)}
    order by received_at desc, robot_id desc, first_seq desc limit ${limit}`);

const nameRow = row({ id: text, name: text });

/** Returns the names of robots by id. */
export async function robotNames(db: Db, org_id: string, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  // reads tables of other features: robot
  const rows = await db.many(sql(nameRow)`select id, name from robot where org_id = ${org_id} and id = any(${list([...ids])}::text[])`);
  return new Map(rows.map(({ id, name }) => [id, name]));
}
