import type { Role } from "@roamfleet/protocol";
import type { FindPlaces, Found, PlacedKind } from "../../kernel/authorize.ts";
import type { Scopes } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, jsonb, list, nullable, row, type RowOf, sql, type Statement, text, textOf } from "../../kernel/sql.ts";

const membershipRow = row({ user_id: text, role: textOf<Role>(), scopes: jsonb<Scopes>() });

/** Returns the grants of these users in the org. Locks them: the removal or demotion of such a user waits until the transaction ends. */
export const shareMemberships = (tx: Db, org_id: string, user_ids: readonly string[]) =>
  // reads tables of other features: membership
  tx.many(sql(membershipRow)`
    select user_id, role, scopes from membership where org_id = ${org_id} and user_id = any(${list(user_ids)}::text[])
    order by user_id, role for key share`);

const credentialRow = row({ id: text, role: textOf<Role>(), scopes: jsonb<Scopes>(), revoked: bool });

/** Returns these tokens of the org. Locks them: a revocation waits until the transaction ends, but an update of `last_used_at` does not. */
export const shareCredentials = (tx: Db, org_id: string, ids: readonly string[]) =>
  // reads tables of other features: credential
  tx.many(sql(credentialRow)`
    select id, role, scopes, revoked_at is not null as revoked from credential where org_id = ${org_id} and id = any(${list(ids)}::text[])
    order by id for key share`);

const foundRow = row({ id: text, site_id: nullable(text), fleet_id: nullable(text), shared: bool, fleets: jsonb<string[]>() });
type FoundRow = RowOf<typeof foundRow>;

/** Returns the place of each object: its site and fleet. Callers whose role is limited to certain sites or fleets need it. */
export const findPlaces: FindPlaces = async (db, org_id, kind, ids, fleets) => {
  const rows = await db.many(STATEMENTS[kind](org_id, list(ids), list(fleets)));
  return new Map(rows.map(({ id, site_id, fleet_id, ...rest }) => [id, { place: { site_id, fleet_id }, ...rest } satisfies Found]));
};

type Ids = ReturnType<typeof list>;

/**
 * A deployment to a robot or fleet belongs to the site and fleet where that is now. A deployment to a selection belongs to the selector's
 * fleet or, without one, to its site. If there is no such object, the deployment belongs to the org only.
 */
const deployments = (org_id: string, kind: "release" | "config", ids: Ids): Statement<FoundRow> => sql(foundRow)`
  -- reads tables of other features: deployment, robot, fleet
  select d.id, coalesce(r.site_id, f.site_id, d.target_selector ->> 'site_id') as site_id, coalesce(r.fleet_id, f.id) as fleet_id, false as shared, '[]'::jsonb as fleets
  from deployment d
  left join robot r on r.org_id = d.org_id and r.id = d.robot_id
  left join fleet f on f.org_id = d.org_id and f.id = coalesce(d.fleet_id, d.target_selector ->> 'fleet_id')
  where d.org_id = ${org_id} and d.kind = ${kind} and d.id = any(${ids}::text[])`;

const STATEMENTS: Record<PlacedKind, (org_id: string, ids: Ids, fleets: Ids) => Statement<FoundRow>> = {
  site: (org_id, ids, fleets) => sql(foundRow)`
    -- reads tables of other features: site, fleet
    select s.id, s.id as site_id, null::text as fleet_id, false as shared,
      (select coalesce(jsonb_agg(f.id), '[]') from fleet f where f.org_id = s.org_id and f.site_id = s.id and f.id = any(${fleets}::text[])) as fleets
    from site s where s.org_id = ${org_id} and s.id = any(${ids}::text[])`,
  fleet: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: fleet
    select id, site_id, id as fleet_id, false as shared, '[]'::jsonb as fleets from fleet where org_id = ${org_id} and id = any(${ids}::text[])`,
  robot: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: robot
    select id, site_id, fleet_id, false as shared, '[]'::jsonb as fleets from robot where org_id = ${org_id} and id = any(${ids}::text[])`,
  enrollment_key: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: enrollment_key
    select id, site_id, fleet_id, false as shared, '[]'::jsonb as fleets from enrollment_key where org_id = ${org_id} and id = any(${ids}::text[])`,
  shell_session: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: shell_session, robot
    select s.id, r.site_id, r.fleet_id, false as shared, '[]'::jsonb as fleets from shell_session s
    join robot r on r.org_id = s.org_id and r.id = s.robot_id where s.org_id = ${org_id} and s.id = any(${ids}::text[])`,
  alert_rule: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: alert_rule
    select id, site_id, fleet_id, site_id is null and fleet_id is null as shared, '[]'::jsonb as fleets
    from alert_rule where org_id = ${org_id} and id = any(${ids}::text[])`,
  incident_rule: (org_id, ids, fleets) => sql(foundRow)`
    ${STATEMENTS.alert_rule(org_id, ids, fleets)}
    union all
    -- reads tables of other features: alert_rule
    select asked.id, null::text as site_id, null::text as fleet_id, true as shared, '[]'::jsonb as fleets from unnest(${ids}::text[]) as asked (id)
    where not exists (select from alert_rule r where r.org_id = ${org_id} and r.id = asked.id)`,
  alert_mute: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: alert_mute
    select id, site_id, fleet_id, site_id is null and fleet_id is null as shared, '[]'::jsonb as fleets
    from alert_mute where org_id = ${org_id} and id = any(${ids}::text[])`,
  incident: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: incident
    select id, site_id, fleet_id, false as shared, '[]'::jsonb as fleets from incident where org_id = ${org_id} and id = any(${ids}::text[])`,
  deployment: (org_id, ids) => deployments(org_id, "release", ids),
  config_deployment: (org_id, ids) => deployments(org_id, "config", ids),
  config: (org_id, ids) => sql(foundRow)`
    -- reads tables of other features: config_entry, robot, fleet
    select e.id, coalesce(case when e.scope = 'site' then e.scope_id end, f.site_id, r.site_id) as site_id, coalesce(f.id, r.fleet_id) as fleet_id,
      e.scope = 'org' as shared, '[]'::jsonb as fleets
    from config_entry e
    left join fleet f on f.org_id = e.org_id and e.scope = 'fleet' and f.id = e.scope_id
    left join robot r on r.org_id = e.org_id and e.scope = 'robot' and r.id = e.scope_id
    where e.org_id = ${org_id} and e.id = any(${ids}::text[])`,
};
