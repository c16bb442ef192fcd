import { row, sql, type Statement, text } from "../../../kernel/sql.ts";

const refRow = row({ org_id: text, id: text });

/**
 * The first `limit` of `rows`, which selects org_id, id and at: the earliest row of each org, then the second of each, and so on. An org
 * with many rows cannot starve the others.
 */
export const inTurns = (rows: Statement<unknown>, limit: number) => sql(refRow)`
  select org_id, id from (
    select org_id, id, at, row_number() over (partition by org_id order by at, id) as turn from (${rows}) as found) as in_turns
  order by turn, at, id limit ${limit}`;
