import { type Caller, visible } from "../../kernel/caller.ts";
import { MAX_ID, containing, type Window } from "../../kernel/page.ts";
import type { Db } from "../../kernel/db.ts";
import {
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
  timestamptz,
} from "../../kernel/sql.ts";

const fleetRow = row({
  id: text,
  name: text,
  site_id: text,
  desired: jsonb<Record<string, FleetRelease>>(),
  config_revision: nullable(text),
  follow: bool,
  created_at: timestamptz,
  updated_at: timestamptz,
});
const countedRow = row({ ...fleetRow.columns, robot_count: int, online_count: int });
export type FleetRow = RowOf<typeof countedRow>;
const placeRow = row({ id: text, site_id: text, name: text });
export type FleetPlace = RowOf<typeof placeRow>;
const anyRow = row({ present: bool });

/**
 * Adds the numbers of robots to each fleet of `page`. Uses an index lookup for each fleet, because a plain join may read all robots of the
 * org.
 */
const counted = (page: Statement<unknown>): Statement<FleetRow> =>
  // reads tables of other features: robot
  sql(countedRow)`
    with page as (${page})
    select ${fleetRow.of("page")}, counts.robot_count, counts.online_count
    from page cross join lateral (
      select count(*)::int as robot_count, count(r.node_id)::int as online_count from robot r
      where r.org_id = page.org_id and r.fleet_id = page.id and r.decommissioned_at is null) counts
    order by page.id desc`;

export const listFleets = (
  db: Db,
  caller: Caller,
  filter: { site_id?: string | undefined; q?: string | undefined },
  { after, limit }: Window,
): Promise<FleetRow[]> => {
  const { site_id, q } = filter;
  return db.many(
    counted(sql`
      select org_id, ${fleetRow} from fleet
      where org_id = ${caller.org_id} and id < ${after ?? MAX_ID} ${equals({ site_id })}
        ${q === undefined ? sql`` : sql`and name ~ ${containing(q)}`} ${visible(caller, "site_id", "id")}
      order by id desc limit ${limit}`),
  );
};

export const findFleet = (db: Db, org_id: string, id: string): Promise<FleetRow | undefined> =>
  db.maybe(counted(sql`select org_id, ${fleetRow} from fleet where org_id = ${org_id} and id = ${id}`));

export interface NewFleet {
  org_id: string;
  id: string;
  site_id: string;
  name: string;
  follow: boolean;
  at: Date;
}

export const insertFleet = async (db: Db, fleet: NewFleet): Promise<FleetRow> => ({
  ...(await db.one(sql(fleetRow)`
    insert into fleet (org_id, id, site_id, name, follow, created_at, updated_at)
    values (${fleet.org_id}, ${fleet.id}, ${fleet.site_id}, ${fleet.name}, ${fleet.follow}, ${fleet.at}, ${fleet.at})
    returning ${fleetRow}`)),
  robot_count: 0,
  online_count: 0,
});

export const updateFleet = (
  db: Db,
  org_id: string,
  id: string,
  change: { name?: string | undefined; follow?: boolean | undefined },
  now: Date,
): Promise<number> =>
  db.run(sql`
    update fleet set name = coalesce(${change.name ?? null}, name), follow = coalesce(${change.follow ?? null}, follow),
      follow_cursor = case when ${change.follow === true} and not follow then '' else follow_cursor end, updated_at = ${now}
    where org_id = ${org_id} and id = ${id}`);

/** Returns the id, site and name of a fleet. Locks the fleet against deletion until the transaction ends. */
export const shareFleet = (db: Db, org_id: string, id: string): Promise<FleetPlace | undefined> =>
  db.maybe(sql(placeRow)`select ${placeRow} from fleet where org_id = ${org_id} and id = ${id} for key share`);

/** Locks a fleet and returns its id, site and name. No robot can join the fleet until the transaction ends. */
export const lockFleet = (db: Db, org_id: string, id: string): Promise<FleetPlace | undefined> =>
  db.maybe(sql(placeRow)`select ${placeRow} from fleet where org_id = ${org_id} and id = ${id} for update`);

export async function hasRobots(db: Db, org_id: string, id: string): Promise<boolean> {
  const { present } = await db.one(sql(anyRow)`
    -- reads tables of other features: robot
    select exists (select from robot where org_id = ${org_id} and fleet_id = ${id} and decommissioned_at is null) as present`);
  return present;
}

export const deleteFleet = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from fleet where org_id = ${org_id} and id = ${id}`);

/** The release of an app that was deployed to a fleet, and the deployment that set it. */
interface FleetRelease {
  id: string;
  tag: string;
  deployment_id: string;
}

const hasRow = row({ desired: jsonb<Record<string, FleetRelease>>(), config_revision: nullable(text) });
/** Locks a fleet until the transaction ends. Returns its desired releases and its config revision. */
export const lockFleetDesired = (db: Db, org_id: string, id: string) =>
  db.maybe(sql(hasRow)`select ${hasRow} from fleet where org_id = ${org_id} and id = ${id} for no key update`);

/** Sets the fleet's desired release of an app; null removes it. Resets the cursor, so that all robots of the fleet are checked again. */
export const setFleetDesired = (
  db: Db,
  fleet: { org_id: string; id: string },
  app: string,
  desired: FleetRelease | null,
  now: Date,
): Promise<number> =>
  db.run(sql`
    update fleet set desired = case when ${desired === null} then desired - ${app}::text else desired || jsonb_build_object(${app}::text, ${json(desired)}::jsonb) end,
      follow_cursor = '', updated_at = ${now}
    where org_id = ${fleet.org_id} and id = ${fleet.id}`);

/**
 * Sets the fleet's config revision, which is the id of a deployment. Resets the cursor, so that all robots of the fleet are checked again.
 */
export const setFleetConfig = (db: Db, fleet: { org_id: string; id: string }, revision: string, now: Date): Promise<number> =>
  db.run(sql`
    update fleet set config_revision = ${revision}, follow_cursor = '', updated_at = ${now}
    where org_id = ${fleet.org_id} and id = ${fleet.id}`);

/** Finds a fleet that has this release as a desired release. Robots that join such a fleet get the release. */
export const findFleetWith = (db: Db, org_id: string, release_id: string) =>
  db.maybe(sql(row({ id: text, name: text }))`
    select id, name from fleet f where org_id = ${org_id} and exists (select from jsonb_each(f.desired) w where w.value ->> 'id' = ${release_id})
    order by id limit 1`);

/** `version` changes with every change of the row, even if the cursor stays the same. */
const toFollowRow = row({ org_id: text, id: text, follow_cursor: text, version: text });
/**
 * Returns fleets whose robots must be checked, each with the cursor of the last checked robot. Takes the orgs in turn, so that one org does
 * not delay the others. Omits the fleets in `skip`.
 */
export const listFleetsToFollow = (db: Db, limit: number, skip: readonly string[] = []) =>
  db.many(sql(toFollowRow)`
    select org_id, id, follow_cursor, version from (
      select org_id, id, follow_cursor, xmin::text as version, row_number() over (partition by org_id order by updated_at, id) as turn
      from fleet where follow_cursor is not null and id <> all(${list(skip)}::text[])) as in_turns
    order by turn, org_id, id limit ${limit}`);

/**
 * Moves the cursor. If the fleet has changed since `version` was read, changes nothing and returns 0; the next run then reads the fleet
 * again.
 */
export const moveFollowCursor = (db: Db, org_id: string, id: string, version: string, to: string | null): Promise<number> =>
  db.run(sql`update fleet set follow_cursor = ${to} where org_id = ${org_id} and id = ${id} and xmin::text = ${version}`);
