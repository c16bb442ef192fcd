import { ID_PREFIXES } from "@roamfleet/protocol";
import { type Actor, type Routes } from "@roamfleet/protocol/routes";
import { type Caller, mayInWholeOrg, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { madeSince } from "../../kernel/page.ts";
import { jsonb, list, nullable, type RowOf, sql, text, textOf, timestamptz, wiredRow } from "../../kernel/sql.ts";
import { newestOfEach, partOf, rankColumns, ROWS_MAX } from "./part.ts";

type PartName = "releases" | "configs" | "people";

interface Action {
  part: PartName;
  /** Whether only admins of the whole org see the change. Other changes are shown by the release or config itself. */
  is_for_admins?: true;
  summary: (name: string) => string;
}

const ACTIONS: Partial<Record<keyof Routes, Action>> = {
  createRelease: { part: "releases", summary: (name) => `Release ${name} created` },
  deleteRelease: { part: "releases", is_for_admins: true, summary: (name) => `Release ${name} removed` },
  changeSigningKeys: { part: "releases", is_for_admins: true, summary: () => "Signing keys changed" },
  setConfig: { part: "configs", summary: (name) => `Config ${name} set` },
  rollBackConfig: { part: "configs", summary: (name) => `Config ${name} rolled back` },
  deleteConfig: { part: "configs", summary: (name) => `Config ${name} removed` },
  setConfigSchema: { part: "configs", summary: () => "Config schema changed" },
  deleteConfigSchema: { part: "configs", summary: () => "Config schema removed" },
  createUser: { part: "people", is_for_admins: true, summary: (name) => `User ${name} added` },
  updateUser: { part: "people", is_for_admins: true, summary: (name) => `User ${name} changed` },
  deleteUser: { part: "people", is_for_admins: true, summary: (name) => `User ${name} removed` },
  createToken: { part: "people", is_for_admins: true, summary: (name) => `Token ${name} created` },
  revokeToken: { part: "people", is_for_admins: true, summary: (name) => `Token ${name} revoked` },
  rotateToken: { part: "people", is_for_admins: true, summary: (name) => `Token ${name} rotated` },
  updateOrg: { part: "people", is_for_admins: true, summary: () => "Settings of the org changed" },
};

const changeRow = wiredRow({
  part: textOf<PartName>(),
  id: text,
  at: timestamptz,
  actor: jsonb<Actor>(),
  action: textOf<keyof typeof ACTIONS>(),
  object_id: nullable(text),
  object_name: nullable(text),
  ...rankColumns,
});

/** Returns the changes of releases, configs and people since a time, from the audit: for each operation the newest `ROWS_MAX`. */
export async function readChanges(db: Db, caller: Caller, since: Date) {
  const { org_id } = caller;
  const is_admin = mayInWholeOrg(caller, "admin");
  const actions = Object.entries(ACTIONS).filter(([, { is_for_admins }]) => is_admin || is_for_admins !== true);
  // reads tables of other features: audit_entry, config_entry, credential, fleet, membership, release, robot
  const rows = await db.many(sql(changeRow)`
    with entry as materialized (
      select a.part, e.* from unnest(${list(actions.map(([name]) => name))}::text[], ${list(actions.map(([, { part }]) => part))}::text[]) as a (action, part)
      cross join lateral (
        select id, at, actor, action, object_id from audit_entry
        where org_id = ${org_id} and action = a.action and error is null ${madeSince(ID_PREFIXES.audit, since)} order by id desc limit ${ROWS_MAX}) e
    ), full_scan as (select coalesce(max(n), 0) >= ${ROWS_MAX} as truncated from (select count(*) as n from entry group by action) c),
    placed as (
      select e.*, case when c.namespace = 'default' then c.key else c.namespace || '/' || c.key end as key, coalesce(c.scope, 'org') as scope, coalesce(case when c.scope = 'site' then c.scope_id end, f.site_id, r.site_id) as site_id,
        coalesce(f.id, r.fleet_id) as fleet_id
      from entry e
      left join config_entry c on e.part = 'configs' and c.org_id = ${org_id} and c.id = e.object_id
      left join fleet f on c.scope = 'fleet' and f.org_id = ${org_id} and f.id = c.scope_id
      left join robot r on c.scope = 'robot' and r.org_id = ${org_id} and r.id = c.scope_id),
    seen as (select part, id, at, actor, action, object_id, key from placed p where p.scope = 'org' or (true ${visible(caller, "p.site_id", "p.fleet_id")}))
    select n.part, n.id, n.at, n.actor, n.action, n.object_id, n.total, s.truncated, coalesce(n.key, (
      select tag from release where org_id = ${org_id} and id = n.object_id), (
      select max(name) from membership where org_id = ${org_id} and user_id = n.object_id), (
      select label from credential where org_id = ${org_id} and id = n.object_id)) as object_name
    from (${newestOfEach(sql`select * from seen`)}) n cross join full_scan s
    order by n.at desc, n.id desc`);
  const part = (name: PartName) =>
    partOf(
      rows.filter((row) => row.part === name),
      toItem,
    );
  return { releases: part("releases"), configs: part("configs"), people: part("people") };
}

function toItem({ part: _part, total: _total, truncated: _truncated, object_name, ...change }: RowOf<typeof changeRow>) {
  return { ...change, summary: ACTIONS[change.action]?.summary(object_name ?? change.object_id ?? "") ?? change.action };
}
