import type { JsonValue } from "@robofleet/protocol";
import { type Caller, seesWholeOrg, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { BEHIND_ALL_IDS, type Window } from "../../kernel/page.ts";
import { int, json, jsonb, list, nullable, row, type RowOf, sql, type Statement, text, textOf, timestamptz } from "../../kernel/sql.ts";

export type Scope = "org" | "site" | "fleet" | "robot";

const entryRow = row({
  id: text,
  namespace: text,
  key: text,
  scope: textOf<Scope>(),
  // '' at org scope
  scope_id: text,
  // JSON's null is a value too
  value: nullable(jsonb<JsonValue>()),
  version: int,
  value_schema: nullable(jsonb<JsonValue>()),
  updated_by: nullable(text),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type EntryRow = RowOf<typeof entryRow>;

export interface NewEntry {
  id: string;
  namespace: string;
  key: string;
  scope: Scope;
  scope_id: string;
  value: unknown;
  updated_by: string | null;
}

/** Sets a value. The row's lock puts those who set the same one at once in a row: each gets the next version. */
export const upsertEntry = (db: Db, org_id: string, e: NewEntry, now: Date): Promise<EntryRow> =>
  db.one(sql(entryRow)`
    insert into config_entry (org_id, id, namespace, key, scope, scope_id, value, version, updated_by, created_at, updated_at)
    values (${org_id}, ${e.id}, ${e.namespace}, ${e.key}, ${e.scope}, ${e.scope_id}, ${json(e.value)}, 1, ${e.updated_by}, ${now}, ${now})
    on conflict (org_id, namespace, scope, scope_id, key) do update
      set value = excluded.value, version = config_entry.version + 1, updated_by = excluded.updated_by, updated_at = excluded.updated_at
    returning ${entryRow.of("config_entry")}`);

export const findEntry = (db: Db, org_id: string, id: string): Promise<EntryRow | undefined> =>
  db.maybe(sql(entryRow)`select ${entryRow} from config_entry where org_id = ${org_id} and id = ${id}`);

export const deleteEntry = (db: Db, org_id: string, id: string): Promise<EntryRow | undefined> =>
  db.maybe(sql(entryRow)`delete from config_entry where org_id = ${org_id} and id = ${id} returning ${entryRow}`);

export interface EntryFilter {
  namespace?: string | undefined;
  key?: string | undefined;
  scope?: Scope | undefined;
  scope_id?: string | undefined;
}

const NOTHING = sql``;

/** ` and …`: the org's own entries and those of what the caller reaches; sites only as such, not by one fleet of them. */
const reached = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? NOTHING
    : sql` and (scope = 'org' or (scope = 'site' ${visible(caller, "scope_id", null)})
      or (scope = 'fleet' and exists (
        -- reads: fleet
        select from fleet f where f.org_id = config_entry.org_id and f.id = config_entry.scope_id ${visible(caller, "f.site_id", "f.id")}))
      or (scope = 'robot' and exists (
        -- reads: robot
        select from robot r where r.org_id = config_entry.org_id and r.id = config_entry.scope_id ${visible(caller, "r.site_id", "r.fleet_id")})))`;

export const listEntries = (db: Db, caller: Caller, f: EntryFilter, { after, limit }: Window): Promise<EntryRow[]> =>
  db.many(sql(entryRow)`
    select ${entryRow} from config_entry where org_id = ${caller.org_id} and id < ${after ?? BEHIND_ALL_IDS} ${reached(caller)}
      ${f.namespace === undefined ? NOTHING : sql`and namespace = ${f.namespace}`}
      ${f.key === undefined ? NOTHING : sql`and key = ${f.key}`}
      ${f.scope === undefined ? NOTHING : sql`and scope = ${f.scope}`}
      ${f.scope_id === undefined ? NOTHING : sql`and scope_id = ${f.scope_id}`}
    order by id desc limit ${limit}`);

/** Every entry that can concern robots at these places. */
export const listEntriesFor = (db: Db, org_id: string, scope_ids: Iterable<string>, namespace: string | null): Promise<EntryRow[]> =>
  db.many(sql(entryRow)`
    select ${entryRow} from config_entry
    where org_id = ${org_id} and (scope = 'org' or scope_id = any(${list(scope_ids)}::text[])) ${namespace === null ? NOTHING : sql`and namespace = ${namespace}`}
    order by namespace, key, id`);

const placeRow = row({ id: text, site_id: text, fleet_id: text });
export type RobotPlace = RowOf<typeof placeRow>;

export const listPlaces = (db: Db, org_id: string, robot_ids: readonly string[]): Promise<RobotPlace[]> =>
  // reads: robot
  db.many(sql(placeRow)`select ${placeRow} from robot where org_id = ${org_id} and id = any(${list(robot_ids)}::text[])`);

const idRow = row({ id: text });
const scopeObjects: Record<Exclude<Scope, "org">, (org_id: string, id: string) => Statement<{ id: string }>> = {
  site: (org_id, id) => sql(idRow)`
    -- reads: site
    select id from site where org_id = ${org_id} and id = ${id} for key share`,
  fleet: (org_id, id) => sql(idRow)`
    -- reads: fleet
    select id from fleet where org_id = ${org_id} and id = ${id} for key share`,
  robot: (org_id, id) => sql(idRow)`
    -- reads: robot
    select id from robot where org_id = ${org_id} and id = ${id} for key share`,
};

/** Whether the org has what the scope names; it stays until the transaction ends. */
export const lockScopeObject = async (db: Db, org_id: string, scope: Exclude<Scope, "org">, id: string): Promise<boolean> =>
  (await db.maybe(scopeObjects[scope](org_id, id))) !== undefined;

const deployedRow = row({
  namespace: text,
  version: int,
  sha256: text,
  reported_version: nullable(int),
  reported_sha256: nullable(text),
  target_id: nullable(text),
});
export type DeployedRow = RowOf<typeof deployedRow>;

export const listDeployed = (db: Db, org_id: string, robot_id: string): Promise<DeployedRow[]> =>
  // reads: robot_config
  db.many(sql(deployedRow)`select ${deployedRow} from robot_config where org_id = ${org_id} and robot_id = ${robot_id} order by namespace`);
