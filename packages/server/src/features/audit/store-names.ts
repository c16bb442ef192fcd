import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { identifier, list, nullable, row, sql, type Statement, text } from "../../kernel/sql.ts";

const nameRow = row({ id: text, name: nullable(text) });
type NamesOf = (org_id: string, ids: Statement<unknown>) => Statement<{ id: string; name: string | null }>;

/** Finds the objects of a table by their ids. */
const named =
  (table: string, column = "name"): NamesOf =>
  (org_id, ids) =>
    sql(nameRow)`
    -- reads tables of other features: robot, fleet, site, release, config_entry, credential, enrollment_key, alert_rule, alert_channel, incident, saved_view
    select id, ${identifier(column)} as name from ${identifier(table)} where org_id = ${org_id} and id = any(${ids})`;

/** A query for each kind of object that has a name, by the prefix of its ids. */
const QUERIES: Readonly<Record<string, NamesOf>> = {
  [ID_PREFIXES.robot]: named("robot"),
  [ID_PREFIXES.fleet]: named("fleet"),
  [ID_PREFIXES.site]: named("site"),
  [ID_PREFIXES.release]: named("release", "tag"),
  [ID_PREFIXES.config]: named("config_entry", "key"),
  [ID_PREFIXES.token]: named("credential", "label"),
  [ID_PREFIXES.enrollment_key]: named("enrollment_key", "label"),
  [ID_PREFIXES.alert_rule]: named("alert_rule"),
  [ID_PREFIXES.channel]: named("alert_channel"),
  [ID_PREFIXES.incident]: named("incident", "title"),
  [ID_PREFIXES.saved_view]: named("saved_view"),
  [ID_PREFIXES.user]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: membership
    select user_id as id, max(name) as name from membership where org_id = ${org_id} and user_id = any(${ids}) group by user_id`,
  [ID_PREFIXES.deployment]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: deployment, release
    select d.id, r.tag as name from deployment d left join release r on r.org_id = d.org_id and r.id = d.release_id
    where d.org_id = ${org_id} and d.id = any(${ids})`,
};

/** Returns the names of an org's objects by id, with one query for each kind. Objects without a name are missing. */
export async function readNames(db: Db, org_id: string, ids: Iterable<string>): Promise<ReadonlyMap<string, string>> {
  const kinds = Map.groupBy(new Set(ids), (id) => id.split("_", 1)[0] ?? "");
  const found = await Promise.all(
    [...kinds].flatMap(([prefix, of]) => {
      const query = Object.hasOwn(QUERIES, prefix) ? QUERIES[prefix] : undefined;
      return query === undefined ? [] : [db.many(query(org_id, sql`${list(of)}::text[]`))];
    }),
  );
  return new Map(found.flat().flatMap(({ id, name }) => (name === null ? [] : [[id, name]])));
}
