import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { list, nullable, row, sql, type Statement, text } from "../../kernel/sql.ts";

const nameRow = row({ id: text, name: nullable(text) });
type NamesOf = (org_id: string, ids: Statement<unknown>) => Statement<{ id: string; name: string | null }>;

/** A query for each kind of object that has a name, by the prefix of its ids. */
const QUERIES: Readonly<Record<string, NamesOf>> = {
  [ID_PREFIXES.robot]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: robot
    select id, name from robot where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.fleet]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: fleet
    select id, name from fleet where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.site]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: site
    select id, name from site where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.release]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: release
    select id, tag as name from release where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.config]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: config_entry
    select id, key as name from config_entry where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.token]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: credential
    select id, label as name from credential where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.enrollment_key]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: enrollment_key
    select id, label as name from enrollment_key where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.alert_rule]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: alert_rule
    select id, name from alert_rule where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.channel]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: alert_channel
    select id, name from alert_channel where org_id = ${org_id} and id = any(${ids})`,
  [ID_PREFIXES.incident]: (org_id, ids) => sql(nameRow)`
    -- reads tables of other features: incident
    select id, title as name from incident where org_id = ${org_id} and id = any(${ids})`,
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
