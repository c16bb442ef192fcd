import type { Db } from "../../kernel/db.ts";
import { bool, int, json, list, row, type RowOf, sql, text } from "../../kernel/sql.ts";

/** Maximum labels per robot. */
export const LABELS_MAX = 64;

const bulkRow = row({ id: text, site_id: text, fleet_id: text, decommissioned: bool, labels_change: bool, labels_after: int });
export type BulkRow = RowOf<typeof bulkRow>;

interface LabelChange {
  set: Record<string, string>;
  remove: readonly string[];
}

/** Locks the existing robots and returns what the label change results in. In the order of ids, so that transactions cannot deadlock. */
export const lockRobots = (db: Db, org_id: string, ids: readonly string[], { set, remove }: LabelChange): Promise<BulkRow[]> =>
  db.many(sql(bulkRow)`
    with locked as (
      select id, site_id, fleet_id, decommissioned_at is not null as decommissioned, labels, (labels - ${list(remove)}::text[]) || ${json(set)}::jsonb as after
      from robot where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for no key update)
    select id, site_id, fleet_id, decommissioned, after <> labels as labels_change,
      (select count(*)::int from jsonb_object_keys(after)) as labels_after
    from locked`);

export const updateRobots = (
  db: Db,
  org_id: string,
  ids: readonly string[],
  { set, remove, fleet }: LabelChange & { fleet: { id: string; site_id: string } | undefined },
  now: Date,
): Promise<number> =>
  db.run(sql`
    update robot set labels = (labels - ${list(remove)}::text[]) || ${json(set)}::jsonb,
      site_id = coalesce(${fleet?.site_id ?? null}, site_id), fleet_id = coalesce(${fleet?.id ?? null}, fleet_id),
      fleet_since = case when ${fleet?.id ?? null}::text is null or ${fleet?.id ?? null} = fleet_id then fleet_since else ${now} end,
      fleet_order_number = case when ${fleet?.id ?? null}::text is null or ${fleet?.id ?? null} = fleet_id then fleet_order_number else nextval('order_number') end, updated_at = ${now}
    where org_id = ${org_id} and id = any(${list(ids)}::text[])`);
