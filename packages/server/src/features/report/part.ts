import { int, bool, sql, type Statement } from "../../kernel/sql.ts";

/** Maximum items of a part of a report. */
const ITEMS_MAX = 20;
/** Maximum rows that a part is selected from, for each index scan. */
export const ROWS_MAX = 1_000;

/** Columns of a ranked row beside those of its item. */
export const rankColumns = { total: int, truncated: bool };

/**
 * Returns the newest items of each part, with the total of the part. `rows` selects part, at, id and further columns; a row may be in
 * several parts.
 */
export const newestOfEach = (rows: Statement<unknown>): Statement<unknown> => sql`
  select * from (
    select *, count(*) over (partition by part)::int as total, row_number() over (partition by part order by at desc, id desc) as place from (${rows}) p) r
  where place <= ${ITEMS_MAX}`;

interface Part<T> {
  count: number;
  truncated: boolean;
  items: T[];
}

/** Returns one part of the rows that `newestOfEach` selected. */
export function partOf<R extends { total: number; truncated: boolean }, T>(rows: readonly R[], toItem: (row: R) => T): Part<T> {
  return { count: rows[0]?.total ?? 0, truncated: rows[0]?.truncated ?? false, items: rows.map(toItem) };
}
