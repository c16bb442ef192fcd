import type { Db } from "../../kernel/db.ts";
import { int, nullable, row, type RowOf, sql, type Statement, text } from "../../kernel/sql.ts";
import { robotsInUse } from "./store-conditions.ts";
import type { RuleRow } from "./store-rules.ts";

const countsRow = row({ match_count: int, scope_count: nullable(int) });

/** Counts the matches of a rule, and the robots of its scope. `matches` is the query of its condition. */
export const countMatches = (db: Db, org_id: string, rule: RuleRow, matches: Statement<unknown>): Promise<RowOf<typeof countsRow>> =>
  db.one(sql(countsRow)`
    select (select count(*)::int from (${matches}) m) as match_count,
      ${rule.condition.type.startsWith("deployment") ? sql`null::int` : sql`(select count(*)::int from (${robotsInUse(org_id, rule)}) s)`} as scope_count`);

const matchRow = row({ subject_id: text, robot_name: nullable(text), site_id: text, fleet_id: nullable(text) });
const SHOWN_MAX = 100;

/** Returns the first matches by id. */
export const listMatchesNow = (db: Db, org_id: string, matches: Statement<unknown>): Promise<RowOf<typeof matchRow>[]> =>
  // reads tables of other features: robot
  db.many(sql(matchRow)`
    select m.subject_id, r.name as robot_name, m.site_id, m.fleet_id
    from (select * from (${matches}) c order by subject_id limit ${SHOWN_MAX}) m left join robot r on r.org_id = ${org_id} and r.id = m.subject_id
    order by m.subject_id`);
