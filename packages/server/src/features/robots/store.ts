import type { Platform } from "@roamfleet/protocol/link";
import type { Robot } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import {
  bool,
  bytea,
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

export const robotRow = row({
  id: text,
  name: text,
  site_id: text,
  fleet_id: text,
  labels: jsonb<Record<string, string>>(),
  public_key: bytea,
  agent_version: nullable(text),
  platform: nullable(jsonb<Platform>()),
  node_id: nullable(text),
  last_seen_at: nullable(timestamptz),
  held_at: nullable(timestamptz),
  approval_requested_at: nullable(timestamptz),
  decommissioned_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type RobotRow = RowOf<typeof robotRow>;

interface ReleaseRef {
  id: string;
  tag: string;
}
export interface AppColumn {
  app: string;
  status: string;
  current: ReleaseRef | null;
  desired: ReleaseRef | null;
  /** A deployment of this app is open. */
  under_way: boolean;
  failed: boolean;
}
/** Number of a robot's namespaces by state. */
export interface ConfigColumn {
  drifted: number;
  pending: number;
  in_sync: number;
}
const shownRow = row({
  ...robotRow.columns,
  apps: jsonb<AppColumn[]>(),
  configs: jsonb<ConfigColumn>(),
  health: textOf<Robot["health"]>(),
  failing: jsonb<string[]>(),
});
export type ShownRobotRow = RowOf<typeof shownRow>;

export type RobotStatus = "online" | "offline" | "never_connected" | "decommissioned";
/** Adds to each robot of `page` (a common table expression) its apps, the states of its configs and its health. */
export const shown = (page: Statement<unknown>, order: Statement<unknown>): Statement<ShownRobotRow> =>
  // reads: robot_app, release, robot_config, health_snapshot
  sql(shownRow)`
    with page as (${page})
    select ${robotRow.of("page")}, coalesce(apps.list, '[]') as apps, configs.counts as configs,
      coalesce(health.state, 'unknown') as health, coalesce(health.failing, '[]') as failing
    from page
    left join health_snapshot health on health.org_id = page.org_id and health.robot_id = page.id
    cross join lateral (
      select json_agg(json_build_object(
        'app', a.app, 'status', a.status, 'under_way', a.target_id is not null, 'failed', a.failed_release_id is not null,
        'current', case when cur.id is not null then json_build_object('id', cur.id, 'tag', cur.tag) end,
        'desired', case when des.id is not null then json_build_object('id', des.id, 'tag', des.tag) end) order by a.app) as list
      from robot_app a
      left join release cur on cur.org_id = a.org_id and cur.id = a.current_release_id
      left join release des on des.org_id = a.org_id and des.id = a.desired_release_id
      where a.org_id = page.org_id and a.robot_id = page.id) apps
    cross join lateral (
      select json_build_object(
        'in_sync', count(*) filter (where c.reported_sha256 = c.sha256),
        'pending', count(*) filter (where c.reported_sha256 is distinct from c.sha256 and (c.target_id is not null or c.reported_version is distinct from c.version)),
        'drifted', count(*) filter (where c.reported_sha256 <> c.sha256 and c.target_id is null and c.reported_version = c.version)) as counts
      from robot_config c where c.org_id = page.org_id and c.robot_id = page.id) configs
    order by ${order}`;

export const findRobot = (db: Db, org_id: string, id: string): Promise<ShownRobotRow | undefined> =>
  db.maybe(shown(sql`select org_id, ${robotRow} from robot where org_id = ${org_id} and id = ${id}`, sql`page.id`));

const placeRow = row({ id: text, name: text, site_id: text, fleet_id: text, online: bool, decommissioned: bool });
export type RobotPlace = RowOf<typeof placeRow>;
const placeColumns = sql`id, name, site_id, fleet_id, node_id is not null as online, decommissioned_at is not null as decommissioned`;

export const findPlace = (db: Db, org_id: string, id: string): Promise<RobotPlace | undefined> =>
  db.maybe(sql(placeRow)`select ${placeColumns} from robot where org_id = ${org_id} and id = ${id}`);

/** Locks the robot's row against changes until the transaction ends; rows that reference it can still be inserted. */
export const lockRobot = (db: Db, org_id: string, id: string): Promise<RobotPlace | undefined> =>
  db.maybe(sql(placeRow)`select ${placeColumns} from robot where org_id = ${org_id} and id = ${id} for no key update`);

export interface RobotChange {
  name?: string | undefined;
  labels?: Record<string, string> | undefined;
  place?: { site_id: string; fleet_id: string } | undefined;
}

export const updateRobot = (db: Db, org_id: string, id: string, { name, labels, place }: RobotChange, now: Date): Promise<number> =>
  db.run(sql`
    update robot set name = coalesce(${name ?? null}, name), labels = coalesce(${json(labels)}::jsonb, labels),
      site_id = coalesce(${place?.site_id ?? null}, site_id), fleet_id = coalesce(${place?.fleet_id ?? null}, fleet_id),
      fleet_since = case when ${place?.fleet_id ?? null}::text is null or ${place?.fleet_id ?? null} = fleet_id then fleet_since else ${now} end,
      fleet_order_number = case when ${place?.fleet_id ?? null}::text is null or ${place?.fleet_id ?? null} = fleet_id then fleet_order_number else nextval('order_number') end, updated_at = ${now}
    where org_id = ${org_id} and id = ${id}`);

export const decommissionRobot = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`
    update robot set decommissioned_at = ${now}, node_id = null, node_epoch = null, session_id = null, updated_at = ${now}
    where org_id = ${org_id} and id = ${id} and decommissioned_at is null`);

/** Quarantines a robot: no machine is admitted with its identity until an operator decides. */
export const holdRobot = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`update robot set held_at = ${now}, updated_at = ${now} where org_id = ${org_id} and id = ${id} and held_at is null`);

/** Ends a quarantine; returns 0 if there was none. Forgets the runs of the robot's machines, so that the next one counts as the first. */
export const releaseRobot = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`
    update robot set held_at = null, runs = '[]', updated_at = ${now} where org_id = ${org_id} and id = ${id} and held_at is not null`);

/** Approves a robot; returns 0 if it already was. */
export const setApproved = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`
    update robot set approval_requested_at = null, updated_at = ${now} where org_id = ${org_id} and id = ${id} and approval_requested_at is not null`);

export interface NewComputer {
  org_id: string;
  id: string;
  /** The 32 raw Ed25519 bytes. */
  public_key: Buffer;
  enrollment_key_id: string;
  platform: Platform | undefined;
  /** Whether it gets secrets immediately. */
  approved: boolean;
  at: Date;
}

/** Gives the robot another key; everything else stays. Returns 0 if it was decommissioned. */
export const giveRobotKey = (db: Db, { org_id, id, public_key, enrollment_key_id, platform, approved, at }: NewComputer): Promise<number> =>
  db.run(sql`
    update robot set public_key = ${public_key}, enrollment_key_id = ${enrollment_key_id}, platform = coalesce(${json(platform)}::jsonb, platform),
      held_at = null, runs = '[]', session_id = null, approval_requested_at = ${approved ? null : at}, updated_at = ${at}
    where org_id = ${org_id} and id = ${id} and decommissioned_at is null`);

export interface NewRobot {
  org_id: string;
  id: string;
  name: string;
  site_id: string;
  fleet_id: string;
  labels: Record<string, string>;
  /** The 32 raw Ed25519 bytes. */
  public_key: Buffer;
  enrollment_key_id: string;
  platform: Platform | undefined;
  /** Whether it gets secrets immediately. */
  approved: boolean;
  at: Date;
}

export const insertRobot = (db: Db, robot: NewRobot): Promise<number> =>
  db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, labels, public_key, enrollment_key_id, platform, approval_requested_at, created_at, updated_at)
    values (${robot.org_id}, ${robot.id}, ${robot.name}, ${robot.site_id}, ${robot.fleet_id}, ${json(robot.labels)}, ${robot.public_key},
      ${robot.enrollment_key_id}, ${json(robot.platform)}, ${robot.approved ? null : robot.at}, ${robot.at}, ${robot.at})`);

/** Makes every robot wait for an admin's approval again. Returns how many were approved. */
export const revokeEveryApproval = (db: Db, now: Date): Promise<number> =>
  db.run(sql`
    -- across orgs: a restored backup contains the robots of all of them
    update robot set approval_requested_at = ${now}, updated_at = ${now}
    where approval_requested_at is null and decommissioned_at is null`);

const identityRow = row({ org_id: text, robot_id: text, public_key: bytea, decommissioned: bool, held: bool, suspended: bool });

export type IdentityRow = RowOf<typeof identityRow>;

/** Finds robots by id. This is the one query for robots before their org is known. */
export const findIdentities = (db: Db, robot_ids: readonly string[]): Promise<IdentityRow[]> =>
  // reads: robot_key, org
  db.many(sql(identityRow)`
    select r.org_id, r.id as robot_id, k.public_key, r.decommissioned_at is not null as decommissioned, r.held_at is not null as held,
      o.status = 'suspended' as suspended
    from robot_key k join robot r on r.org_id = k.org_id and r.id = k.robot_id join org o on o.id = r.org_id
    where k.robot_id = any(${list(robot_ids)}::text[])`);

export const findIdentity = async (db: Db, robot_id: string): Promise<IdentityRow | undefined> => (await findIdentities(db, [robot_id]))[0];
