import type { JsonValue } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, seesWholeOrg, visible } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import {
  bigint,
  bool,
  equals,
  int,
  json,
  jsonb,
  list,
  nullable,
  row,
  type RowOf,
  sql,
  type Statement,
  text,
  textOf,
  timestamptz,
} from "../../kernel/sql.ts";

export type Scope = "org" | "site" | "fleet" | "robot";

const entryRow = row({
  id: text,
  namespace: text,
  key: text,
  scope: textOf<Scope>(),
  // Empty for the scope `org`.
  scope_id: text,
  // SQL null for a secret. A value may also be JSON null.
  value: nullable(jsonb<JsonValue>()),
  // The encrypted value of a secret; null for other values.
  sealed: nullable(text),
  version: int,
  updated_by: nullable(text),
  removed_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type EntryRow = RowOf<typeof entryRow>;

/** Identifies a value by its namespace, key and scope. `scope_id` is the id of the site, fleet or robot. */
export type EntryPlace = Pick<EntryRow, "namespace" | "key" | "scope" | "scope_id">;

interface EntryChange extends EntryPlace {
  id: string;
  version: number;
  value: unknown;
  sealed: string | null;
  updated_by: string | null;
}

/** Sets a value. The caller has locked the namespace's row, so concurrent changes get distinct versions. */
export const putEntry = (db: Db, org_id: string, e: EntryChange, now: Date): Promise<EntryRow> =>
  db.one(sql(entryRow)`
    insert into config_entry (org_id, id, namespace, key, scope, scope_id, value, sealed, version, updated_by, created_at, updated_at)
    values (${org_id}, ${e.id}, ${e.namespace}, ${e.key}, ${e.scope}, ${e.scope_id}, ${json(e.value)}, ${e.sealed}, ${e.version}, ${e.updated_by}, ${now}, ${now})
    on conflict (org_id, namespace, scope, scope_id, key) do update
      set value = excluded.value, sealed = excluded.sealed, version = excluded.version, updated_by = excluded.updated_by, removed_at = null, updated_at = excluded.updated_at
    returning ${entryRow.of("config_entry")}`);

export const findEntry = (db: Db, org_id: string, id: string): Promise<EntryRow | undefined> =>
  db.maybe(sql(entryRow)`select ${entryRow} from config_entry where org_id = ${org_id} and id = ${id} and removed_at is null`);

const placedRow = row({ id: text, namespace: text, key: text, scope: textOf<Scope>(), scope_id: text, version: int, removed: bool });
type PlacedEntry = RowOf<typeof placedRow>;

/** Finds an entry, even if it was removed. A removed entry keeps its history, and keeps its id when it is set again. */
export const findPlaced = (db: Db, org_id: string, at: { id: string } | EntryPlace): Promise<PlacedEntry | undefined> =>
  db.maybe(sql(placedRow)`
    select id, namespace, key, scope, scope_id, version, removed_at is not null as removed from config_entry where org_id = ${org_id} and ${
      "id" in at
        ? sql`id = ${at.id}`
        : sql`namespace = ${at.namespace} and scope = ${at.scope} and scope_id = ${at.scope_id} and key = ${at.key}`
    }`);

export const removeEntry = (db: Db, org_id: string, id: string, version: number, updated_by: string | null, now: Date): Promise<number> =>
  db.run(sql`
    update config_entry set value = 'null', sealed = null, version = ${version}, updated_by = ${updated_by}, removed_at = ${now}, updated_at = ${now}
    where org_id = ${org_id} and id = ${id}`);

const versionRow = row({
  config_id: text,
  version: int,
  change: textOf<"set" | "removed" | "rolled_back">(),
  value: nullable(jsonb<JsonValue>()),
  sealed: nullable(text),
  rollback_of: nullable(int),
  actor: jsonb<Actor>(),
  at: timestamptz,
});
export type VersionRow = RowOf<typeof versionRow>;

/** Versions kept per value, including the current one. Without a limit, a program that sets a value every minute would fill the disk. */
export const HISTORY_VERSIONS_MAX = 100;

/**
 * Inserts the next version of a value, and deletes the oldest versions beyond the maximum. Deployed files do not depend on these versions,
 * because each robot's files are stored separately.
 */
export const insertVersion = async (db: Db, org_id: string, v: Omit<VersionRow, "value"> & { value: unknown }): Promise<void> => {
  await db.run(sql`
    insert into config_version (org_id, config_id, version, change, value, sealed, rollback_of, actor, at)
    values (${org_id}, ${v.config_id}, ${v.version}, ${v.change}, ${json(v.value)}, ${v.sealed}, ${v.rollback_of}, ${json(v.actor)}, ${v.at})`);
  await db.run(
    sql`delete from config_version where org_id = ${org_id} and config_id = ${v.config_id} and version <= ${v.version - HISTORY_VERSIONS_MAX}`,
  );
};

export const findVersion = (db: Db, org_id: string, config_id: string, version: number): Promise<VersionRow | undefined> =>
  db.maybe(
    sql(
      versionRow,
    )`select ${versionRow} from config_version where org_id = ${org_id} and config_id = ${config_id} and version = ${version}`,
  );

/** Returns the versions of a value below the version `before`, newest first. */
export const listVersions = (db: Db, org_id: string, config_id: string, before: number, limit: number): Promise<VersionRow[]> =>
  db.many(sql(versionRow)`
    select ${versionRow} from config_version where org_id = ${org_id} and config_id = ${config_id} and version < ${before}
    order by version desc limit ${limit}`);

interface EntryFilter {
  namespace?: string | undefined;
  key?: string | undefined;
  scope?: Scope | undefined;
  scope_id?: string | undefined;
  removed?: boolean | undefined;
}

const NOTHING = sql``;

/**
 * Returns an SQL condition `and …` for the entries that the caller may see: those of the org, and those of sites, fleets and robots within
 * the caller's scopes. To see an entry of a site, the caller needs access to the whole site.
 */
const reached = (caller: Caller): Statement<unknown> =>
  seesWholeOrg(caller)
    ? NOTHING
    : sql` and (scope = 'org' or (scope = 'site' ${visible(caller, "scope_id", null)})
      or (scope = 'fleet' and exists (
        -- reads tables of other features: fleet
        select from fleet f where f.org_id = config_entry.org_id and f.id = config_entry.scope_id ${visible(caller, "f.site_id", "f.id")}))
      or (scope = 'robot' and exists (
        -- reads tables of other features: robot
        select from robot r where r.org_id = config_entry.org_id and r.id = config_entry.scope_id ${visible(caller, "r.site_id", "r.fleet_id")})))`;

export const listEntries = (db: Db, caller: Caller, f: EntryFilter, { after, limit }: Window): Promise<EntryRow[]> =>
  db.many(sql(entryRow)`
    select ${entryRow} from config_entry where org_id = ${caller.org_id} and id < ${after ?? MAX_ID} and (removed_at is not null) = ${f.removed === true} ${reached(caller)}
      ${equals({ namespace: f.namespace, key: f.key, scope: f.scope, scope_id: f.scope_id })}
    order by id desc limit ${limit}`);

/** Finds a scope in which this key is a secret or, with `secret` false, is not a secret. Prefers a scope that the caller may see. */
export const findKeyThatIs = (db: Db, caller: Caller, secret: boolean, { namespace, key }: EntryPlace) =>
  db.maybe(sql(row({ scope: textOf<Scope>(), scope_id: text, is_reached: bool }))`
    select scope, scope_id, (true ${reached(caller)}) as is_reached from config_entry
    where org_id = ${caller.org_id} and namespace = ${namespace} and key = ${key} and removed_at is null and (sealed is not null) = ${secret}
    order by is_reached desc limit 1`);

/**
 * The entries as they are now or, with an order number, as they were when that number was drawn. A value that was set more than
 * HISTORY_VERSIONS_MAX times since has its oldest version.
 */
const entriesAt = (as_of: number | null): Statement<unknown> =>
  as_of === null
    ? sql`config_entry`
    : sql`(
        select e.org_id, e.id, e.namespace, e.key, e.scope, e.scope_id, v.value, v.sealed, v.version, e.updated_by, null::timestamptz as removed_at,
          e.created_at, v.at as updated_at
        from config_entry e cross join lateral (
          select * from config_version h where h.org_id = e.org_id and h.config_id = e.id
            and (coalesce(h.order_number, 0) < ${as_of} or (h.version > 1 and h.version = e.version - ${HISTORY_VERSIONS_MAX - 1}::int))
          order by h.version desc limit 1) v
        where v.change <> 'removed') as config_entry`;

/**
 * Waits for the transactions that are changing values of this namespace, or of any if it is null. They have locked the namespace before they
 * drew their order numbers. So after the call, all versions with a lower number than one that was drawn before the call are visible.
 */
export const awaitChanges = (db: Db, org_id: string, namespace: string | null): Promise<number> =>
  db.run(sql`
    select from config_namespace where org_id = ${org_id} ${equals({ namespace: namespace ?? undefined })} order by namespace for share`);

/** Returns an SQL condition for entries of the org and of the sites, fleets and robots in `scope_ids`. */
const concerning = (scope_ids: Iterable<string>, namespace: string | null): Statement<unknown> => sql`
  removed_at is null and (scope = 'org' or scope_id = any(${list(scope_ids)}::text[]))
  ${equals({ namespace: namespace ?? undefined })}`;

export const listEntriesFor = (
  db: Db,
  org_id: string,
  scope_ids: Iterable<string>,
  namespace: string | null,
  as_of: number | null,
): Promise<EntryRow[]> =>
  db.many(sql(entryRow)`
    select ${entryRow} from ${entriesAt(as_of)} where org_id = ${org_id} and ${concerning(scope_ids, namespace)} order by namespace, key, id`);

/** Returns the size in bytes of the values set for the org (`scope_id` is '') and for each site, fleet and robot in `scope_ids`. */
export const listSizesFor = (db: Db, org_id: string, scope_ids: Iterable<string>, namespace: string | null, as_of: number | null) =>
  db.many(sql(row({ scope_id: text, bytes: bigint }))`
    select scope_id, sum(octet_length(key) + octet_length(value::text) + coalesce(octet_length(sealed), 0))::bigint as bytes
    from ${entriesAt(as_of)} where org_id = ${org_id} and ${concerning(scope_ids, namespace)} group by scope_id`);

/** Returns the values of a namespace that are not secret, in all scopes, in order of id after the id `after`. */
export const listOpenEntriesOf = (db: Db, org_id: string, namespace: string, after: string, limit: number): Promise<EntryRow[]> =>
  db.many(sql(entryRow)`
    select ${entryRow} from config_entry where org_id = ${org_id} and namespace = ${namespace} and removed_at is null and sealed is null and id > ${after} order by id limit ${limit}`);

const placeRow = row({ id: text, site_id: text, fleet_id: text });
export type RobotPlace = RowOf<typeof placeRow>;

export const listPlaces = (db: Db, org_id: string, robot_ids: readonly string[]): Promise<RobotPlace[]> =>
  // reads tables of other features: robot
  db.many(sql(placeRow)`select ${placeRow} from robot where org_id = ${org_id} and id = any(${list(robot_ids)}::text[])`);

const idRow = row({ id: text });
const scopeObjects: Record<Exclude<Scope, "org">, (org_id: string, id: string) => Statement<{ id: string }>> = {
  site: (org_id, id) => sql(idRow)`
    -- reads tables of other features: site
    select id from site where org_id = ${org_id} and id = ${id} for key share`,
  fleet: (org_id, id) => sql(idRow)`
    -- reads tables of other features: fleet
    select id from fleet where org_id = ${org_id} and id = ${id} for key share`,
  robot: (org_id, id) => sql(idRow)`
    -- reads tables of other features: robot
    select id from robot where org_id = ${org_id} and id = ${id} for key share`,
};

/** Whether the org has this site, fleet or robot; locks it against deletion until the transaction ends. */
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
  // reads tables of other features: robot_config
  db.many(sql(deployedRow)`select ${deployedRow} from robot_config where org_id = ${org_id} and robot_id = ${robot_id} order by namespace`);

/** Returns the files last deployed to the robot, one per namespace. Files that contain a secret are encrypted. */
export const listDeployedFiles = (db: Db, org_id: string, robot_id: string) =>
  db.many(sql(row({ namespace: text, content: text, sha256: text }))`
    -- reads tables of other features: robot_config
    select namespace, content, sha256 from robot_config where org_id = ${org_id} and robot_id = ${robot_id} order by namespace`);

const keyRow = row({ id: text, master_key_id: text, wrapped: text });
type KeyRow = RowOf<typeof keyRow>;

/** Returns the encrypted data keys of the org, newest first. */
export const listKeys = (db: Db, org_id: string): Promise<KeyRow[]> =>
  db.many(sql(keyRow)`select ${keyRow} from secret_key where org_id = ${org_id} order by id desc`);

export const insertKey = (db: Db, org_id: string, { id, master_key_id, wrapped }: KeyRow, now: Date): Promise<number> =>
  db.run(sql`
    insert into secret_key (org_id, id, master_key_id, wrapped, created_at)
    values (${org_id}, ${id}, ${master_key_id}, ${wrapped}, ${now})`);

export const setKey = (db: Db, org_id: string, { id, master_key_id, wrapped }: KeyRow): Promise<number> =>
  db.run(sql`update secret_key set master_key_id = ${master_key_id}, wrapped = ${wrapped} where org_id = ${org_id} and id = ${id}`);

const ownedRow = row({ org_id: text, id: text, master_key_id: text, wrapped: text });
export type OwnedKeyRow = RowOf<typeof ownedRow>;

/** Returns the data keys of all orgs that are encrypted with another master key, in order of id after the id `after`. */
export const listKeysOfOthers = (db: SystemDb, master_key_id: string, after: string, limit: number): Promise<OwnedKeyRow[]> =>
  db.many(sql(ownedRow)`
    -- across orgs: the server's master key has changed
    select ${ownedRow} from secret_key where master_key_id <> ${master_key_id} and id > ${after} order by id limit ${limit}`);

export const countKeysOfOthers = (db: SystemDb, master_key_id: string): Promise<{ count: number }> =>
  db.one(sql(row({ count: int }))`
    -- across orgs: the server's master key has changed
    select count(*)::int as count from secret_key where master_key_id <> ${master_key_id}`);

const namespaceRow = row({ value_schema: nullable(jsonb<JsonValue>()), schema_version: int });

/**
 * Locks a namespace. Until this transaction ends, no other transaction changes its values or schema. Returns the schema and its version.
 */
export const lockNamespace = (db: Db, org_id: string, namespace: string): Promise<RowOf<typeof namespaceRow>> =>
  db.one(sql(namespaceRow)`
    insert into config_namespace (org_id, namespace) values (${org_id}, ${namespace})
    on conflict (org_id, namespace) do update set namespace = excluded.namespace
    returning ${namespaceRow.of("config_namespace")}`);

const schemaRow = row({
  namespace: text,
  value_schema: jsonb<JsonValue>(),
  schema_version: int,
  schema_updated_by: jsonb<Actor>(),
  schema_updated_at: timestamptz,
});
export type SchemaRow = RowOf<typeof schemaRow>;

/** Sets a namespace's schema and increments its version. Undefined as `schema` removes the schema. */
export const setSchema = (db: Db, org_id: string, namespace: string, schema: unknown, actor: Actor, now: Date): Promise<number> =>
  db.run(sql`
    update config_namespace
    set value_schema = ${json(schema)}, schema_version = schema_version + 1, schema_updated_by = ${json(actor)}, schema_updated_at = ${now}
    where org_id = ${org_id} and namespace = ${namespace}`);

export const findSchema = (db: Db, org_id: string, namespace: string): Promise<SchemaRow | undefined> =>
  db.maybe(sql(schemaRow)`
    select ${schemaRow} from config_namespace where org_id = ${org_id} and namespace = ${namespace} and value_schema is not null`);

export const listSchemas = (db: Db, org_id: string, { after, limit }: Window): Promise<SchemaRow[]> =>
  db.many(sql(schemaRow)`
    select ${schemaRow} from config_namespace where org_id = ${org_id} and namespace > ${after ?? ""} and value_schema is not null
    order by namespace limit ${limit}`);

/** Returns the schemas of these namespaces. Namespaces without a schema are absent. */
export const listSchemasOf = (db: Db, org_id: string, namespaces: Iterable<string>): Promise<SchemaRow[]> =>
  db.many(sql(schemaRow)`
    select ${schemaRow} from config_namespace where org_id = ${org_id} and namespace = any(${list(namespaces)}::text[]) and value_schema is not null`);
