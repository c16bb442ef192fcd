import { ID_PREFIXES } from "@roamfleet/protocol";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { madeSince } from "../../kernel/page.ts";
import { type RowOf, sql, textOf, wiredRow } from "../../kernel/sql.ts";
import { incidentNames, incidentRow, nameColumns } from "../alerts/index.ts";
import { newestOfEach, partOf, rankColumns, ROWS_MAX } from "./part.ts";

const rankedRow = wiredRow({ part: textOf<"raised" | "open">(), ...incidentRow.columns, ...nameColumns, ...rankColumns });

/** Returns the incidents that were opened or reopened since a time, and the unresolved ones. */
export async function readIncidents(db: Db, caller: Caller, since: Date) {
  const { org_id } = caller;
  const seen = visible(caller, "site_id", "fleet_id");
  // reads tables of other features: incident
  const made = sql`select *, created_at as at from incident where org_id = ${org_id} ${seen}`;
  const rows = await db.many(sql(rankedRow)`
    with recent as materialized (
      (select * from (${made}) m where true ${madeSince(ID_PREFIXES.incident, since)} order by id desc limit ${ROWS_MAX})
      union
      (select * from (${made}) m where resolved_at >= ${since} order by resolved_at desc limit ${ROWS_MAX})
    ), unresolved as materialized (
      select * from (${made}) m where status <> 'resolved' order by id desc limit ${ROWS_MAX}
    ), part as (
      select 'raised' as part, ${incidentRow}, raised_at as at from (select * from recent union select * from unresolved) a where raised_at >= ${since}
      union all
      select 'open', ${incidentRow}, raised_at from unresolved)
    select part, ${incidentRow}, ${incidentNames(org_id)}, total, (select count(*) from unresolved) = ${ROWS_MAX} or (select count(*) from recent) >= ${ROWS_MAX} as truncated
    from (${newestOfEach(sql`select * from part`)}) page order by at desc, id desc`);
  const part = (name: string) =>
    partOf(
      rows.filter((row) => row.part === name),
      toItem,
    );
  return { raised: part("raised"), open: part("open") };
}

const toItem = ({ part: _part, total: _total, truncated: _truncated, ...incident }: RowOf<typeof rankedRow>) => incident;
