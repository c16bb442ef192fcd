import type { Db } from "../../kernel/db.ts";
import type { Window } from "../../kernel/page.ts";
import { bool, int, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

export type ConfigScope = "org" | "site" | "fleet" | "robot";

export const entryRow = row({
  id: text,
  namespace: text,
  key: text,
  scope: textOf<ConfigScope>(),
  scope_id: text,
  value: jsonb<unknown>(),
  version: int,
  value_schema: nullable(jsonb<unknown>()),
  updated_by: nullable(text),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type EntryRow = RowOf<typeof entryRow>;

export interface NewEntry {
  org_id: string;
  id: string;
  namespace: string;
  key: string;
  scope: ConfigScope;
  scope_id: string;
  value: unknown;
  updated_by: string | null;
}

const setRow = row({ ...entryRow.columns, inserted: bool });
/** Sets a value; the version grows with each set, also with the same value. `inserted` tells the first from the others. */
export const setEntry = (db: Db, e: NewEntry, now: Date) =>
  db.one(sql(setRow)`
    insert into config_entry (org_id, id, namespace, key, scope, scope_id, value, version, updated_by, created_at, updated_at)
    values (${e.org_id}, ${e.id}, ${e.namespace}, ${e.key}, ${e.scope}, ${e.scope_id}, ${json(e.value)}, 1, ${e.updated_by}, ${now}, ${now})
    on conflict (org_id, namespace, scope, scope_id, key) do update
      set value = excluded.value, version = config_entry.version + 1, updated_by = excluded.updated_by, updated_at = excluded.updated_at
    returning ${entryRow}, xmax = 0 as inserted`);

export const findEntry = (db: Db, org_id: string, id: string) =>
  db.maybe(sql(entryRow)`select ${entryRow} from config_entry where org_id = ${org_id} and id = ${id}`);

export const deleteEntry = (db: Db, org_id: string, id: string) =>
  db.maybe(sql(entryRow)`delete from config_entry where org_id = ${org_id} and id = ${id} returning ${entryRow}`);

export interface EntryFilter {
  namespace?: string | undefined;
  key?: string | undefined;
  scope?: string | undefined;
  scope_id?: string | undefined;
}

export const listEntries = (db: Db, org_id: string, f: EntryFilter, { after, limit }: Window) =>
  db.many(sql(entryRow)`
    select ${entryRow} from config_entry where org_id = ${org_id}
    ${f.namespace === undefined ? sql`` : sql`and namespace = ${f.namespace}`}
    ${f.key === undefined ? sql`` : sql`and key = ${f.key}`}
    ${f.scope === undefined ? sql`` : sql`and scope = ${f.scope}`}
    ${f.scope_id === undefined ? sql`` : sql`and scope_id = ${f.scope_id}`}
    ${after === null ? sql`` : sql`and id < ${after}`}
    order by id desc limit ${limit}`);

const effectiveRow = row({
  robot_id: text,
  namespace: text,
  key: text,
  value: jsonb<unknown>(),
  scope: textOf<ConfigScope>(),
  scope_id: text,
  config_id: text,
  version: int,
});
export type EffectiveRow = RowOf<typeof effectiveRow>;

/** For each robot, namespace and key the value of the nearest scope: robot before fleet before site before org. */
export const listEffective = (db: Db, org_id: string, robot_ids: readonly string[], namespace: string | null) =>
  db.many(sql(effectiveRow)`
    -- reads: robot
    select distinct on (r.id, e.namespace, e.key) r.id as robot_id, e.namespace, e.key, e.value, e.scope, e.scope_id, e.id as config_id, e.version
    from robot r join config_entry e on e.org_id = r.org_id and (
      e.scope = 'org' or (e.scope = 'site' and e.scope_id = r.site_id) or (e.scope = 'fleet' and e.scope_id = r.fleet_id) or (e.scope = 'robot' and e.scope_id = r.id))
    where r.org_id = ${org_id} and r.id = any(${list(robot_ids)}::text[]) ${namespace === null ? sql`` : sql`and e.namespace = ${namespace}`}
    order by r.id, e.namespace, e.key, array_position(array['robot', 'fleet', 'site', 'org'], e.scope)`);

/** Whether the site, fleet or robot is there. */
export async function scopeExists(db: Db, org_id: string, scope: Exclude<ConfigScope, "org">, id: string): Promise<boolean> {
  const found = row({ id: text });
  if (scope === "site") return (await db.maybe(sql(found)`select id from site where org_id = ${org_id} and id = ${id} -- reads: site`)) !== undefined;
  if (scope === "fleet") return (await db.maybe(sql(found)`select id from fleet where org_id = ${org_id} and id = ${id} -- reads: fleet`)) !== undefined;
  return (await db.maybe(sql(found)`select id from robot where org_id = ${org_id} and id = ${id} -- reads: robot`)) !== undefined;
}

const deployedRow = row({
  namespace: text,
  version: int,
  sha256: text,
  reported_sha256: nullable(text),
  state: textOf<"in_sync" | "pending" | "drifted">(),
});
/** What was deployed to a robot, and what it reports to have. */
export const listDeployed = (db: Db, org_id: string, robot_id: string) =>
  db.many(sql(deployedRow)`
    -- reads: robot_config
    select namespace, version, sha256, reported_sha256,
      case when reported_sha256 = sha256 then 'in_sync' when target_id is not null or reported_sha256 is null then 'pending' else 'drifted' end as state
    from robot_config where org_id = ${org_id} and robot_id = ${robot_id} order by namespace`);
