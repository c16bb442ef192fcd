import type { Db } from "../../kernel/db.ts";
import { list, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

const batchRow = row({ first_at: timestamptz, points: text });

export interface NewBatch {
  org_id: string;
  robot_id: string;
  first_at: Date;
  last_at: Date;
  /** Encoded by `pack`. */
  points: string;
}

/** Inserts the points of any number of robots in one statement. Batches that an earlier attempt wrote stay unchanged. */
export const insertBatches = (db: Db, batches: readonly NewBatch[]): Promise<number> =>
  db.run(sql`
    insert into health_history (org_id, robot_id, first_at, last_at, points)
    select * from unnest(${list(batches.map((b) => b.org_id))}::text[], ${list(batches.map((b) => b.robot_id))}::text[],
      ${list(batches.map((b) => b.first_at))}::timestamptz[], ${list(batches.map((b) => b.last_at))}::timestamptz[], ${list(batches.map((b) => b.points))}::text[])
    on conflict do nothing`);

/** Returns the batches that may have points between `since` and `until`, oldest first. Batches that begin before `earliest` end before `since`. */
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
