import type { DeploymentStatus } from "@roamfleet/protocol";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, equals, int, list, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";
import { WAITS_FOR_GATE } from "./store.ts";

const fleetRow = row({
  fleet_id: text,
  fleet_name: text,
  site_id: text,
  site_name: text,
  total: int,
  online: int,
  never_connected: int,
  unhealthy: int,
  last_lost_at: nullable(timestamptz),
  fleet_count: int,
  deployment_id: nullable(text),
  deployment_kind: nullable(textOf<"release" | "config">()),
  deployment_status: nullable(textOf<DeploymentStatus>()),
  deployment_at: nullable(timestamptz),
  deployment_waits: nullable(bool),
});
export type FleetStateRow = RowOf<typeof fleetRow>;

/** Restricts the overview to a site, to a fleet, or to both. */
export interface FleetFilter {
  site_id?: string | undefined;
  fleet_id?: string | undefined;
}

/**
 * Returns the fleets that the caller may see, those with most unhealthy and offline robots first. Reads all robots of these fleets in one
 * scan, like the counts of the overview.
 */
export const listFleetStates = (db: Db, caller: Caller, { site_id, fleet_id }: FleetFilter, limit: number): Promise<FleetStateRow[]> =>
  // reads tables of other features: fleet, site, robot, health_snapshot, deployment
  db.many(sql(fleetRow)`
    with counts as (
      select r.fleet_id, count(*)::int as total, count(r.node_id)::int as online, count(h.robot_id)::int as unhealthy,
        count(*) filter (where r.last_seen_at is null and r.node_id is null)::int as never_connected,
        max(r.last_seen_at) filter (where r.node_id is null) as last_lost_at
      from robot r left join health_snapshot h on h.org_id = r.org_id and h.robot_id = r.id and h.state = 'failing'
      where r.org_id = ${caller.org_id} and r.decommissioned_at is null ${visible(caller, "r.site_id", "r.fleet_id")}
        ${equals({ "r.site_id": site_id, "r.fleet_id": fleet_id })}
      group by r.fleet_id
    ), worst as (
      select f.org_id, f.id as fleet_id, f.name as fleet_name, f.site_id, s.name as site_name, coalesce(c.total, 0) as total, coalesce(c.online, 0) as online,
        coalesce(c.never_connected, 0) as never_connected, coalesce(c.unhealthy, 0) as unhealthy, c.last_lost_at, count(*) over ()::int as fleet_count
      from fleet f join site s on s.org_id = f.org_id and s.id = f.site_id left join counts c on c.fleet_id = f.id
      where f.org_id = ${caller.org_id} ${visible(caller, "f.site_id", "f.id")} ${equals({ "f.site_id": site_id, "f.id": fleet_id })}
      order by coalesce(c.unhealthy, 0) + coalesce(c.total, 0) - coalesce(c.online, 0) - coalesce(c.never_connected, 0) desc, s.name, f.name, f.id
      limit ${limit})
    select w.fleet_id, w.fleet_name, w.site_id, w.site_name, w.total, w.online, w.never_connected, w.unhealthy, w.last_lost_at, w.fleet_count,
      d.id as deployment_id, d.kind as deployment_kind, d.status as deployment_status, d.created_at as deployment_at,
      d.awaiting_promotion as deployment_waits
    from worst w left join lateral (
      select id, kind, status, created_at, ${WAITS_FOR_GATE} as awaiting_promotion from deployment as placed
      where org_id = w.org_id and fleet_id = w.fleet_id order by id desc limit 1) d on true
    order by w.unhealthy + w.total - w.online - w.never_connected desc, w.site_name, w.fleet_name, w.fleet_id`);

const versionRow = row({ fleet_id: nullable(text), app: text, app_total: int, release_id: text, tag: text, count: int });
export type VersionRow = RowOf<typeof versionRow>;

/**
 * Returns how many robots run each release of an app, most frequent first: for each of these fleets, and, with `fleet_id` null, for all
 * fleets that the caller may see, these with at most `versions_max` releases of an app. A deleted release has an empty tag. Reads the robots
 * once.
 */
export const countVersions = (
  db: Db,
  caller: Caller,
  { site_id, fleet_id }: FleetFilter,
  fleet_ids: readonly string[],
  { apps_max, versions_max }: { apps_max: number; versions_max: number },
): Promise<VersionRow[]> =>
  // reads tables of other features: robot, robot_app, release
  db.many(sql(versionRow)`
    with versions as materialized (
      select r.fleet_id, a.app, a.current_release_id as release_id, count(*)::int as count
      from robot r join robot_app a on a.org_id = r.org_id and a.robot_id = r.id
      where r.org_id = ${caller.org_id} and r.decommissioned_at is null and a.current_release_id is not null
        ${visible(caller, "r.site_id", "r.fleet_id")} ${equals({ "r.site_id": site_id, "r.fleet_id": fleet_id })}
      group by r.fleet_id, a.app, a.current_release_id
    ), sums as (
      select app, release_id, sum(count)::int as count, sum(sum(count)) over (partition by app)::int as app_total,
        row_number() over (partition by app order by sum(count) desc, release_id desc) as place
      from versions group by app, release_id
    ), counted as (
      select fleet_id, app, sum(count) over (partition by fleet_id, app)::int as app_total, release_id, count
      from versions where fleet_id = any(${list(fleet_ids)}::text[])
      union all
      (select null, app, app_total, release_id, count from sums where place <= ${versions_max}
        order by app_total desc, app, place limit ${apps_max * versions_max}))
    select c.fleet_id, c.app, c.app_total, c.release_id, coalesce(l.tag, '') as tag, c.count
    from counted c left join release l on l.org_id = ${caller.org_id} and l.id = c.release_id
    order by c.fleet_id, c.app_total desc, c.app, c.count desc, c.release_id desc`);
