import type { Db } from "../../kernel/db.ts";
import { json, jsonb, list, nullable, row, sql, text } from "../../kernel/sql.ts";

/** The release that a fleet has of an app, and the deployment from which it has it. */
export interface FleetRelease {
  id: string;
  tag: string;
  deployment_id: string;
}

const hasRow = row({ desired: jsonb<Record<string, FleetRelease>>(), config_revision: nullable(text) });
/** Locks what the fleet has until the transaction ends. */
export const lockFleetDesired = (db: Db, org_id: string, id: string) =>
  db.maybe(sql(hasRow)`select ${hasRow} from fleet where org_id = ${org_id} and id = ${id} for no key update`);

/** Sets the release that the fleet has of the app, or none (null); its members are then checked again. */
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

/** Sets the config revision that the fleet has, which is the id of the deployment. */
export const setFleetConfig = (db: Db, fleet: { org_id: string; id: string }, revision: string, now: Date): Promise<number> =>
  db.run(sql`
    update fleet set config_revision = ${revision}, follow_cursor = '', updated_at = ${now}
    where org_id = ${fleet.org_id} and id = ${fleet.id}`);

/** Finds a fleet that has the release, so that robots which join it get it. */
export const findFleetWith = (db: Db, org_id: string, release_id: string) =>
  db.maybe(sql(row({ id: text, name: text }))`
    select id, name from fleet f where org_id = ${org_id} and exists (select from jsonb_each(f.desired) w where w.value ->> 'id' = ${release_id})
    order by id limit 1`);

/** `version` identifies the row version: any change gives it a new one, even if it leaves the cursor unchanged. */
const toFollowRow = row({ org_id: text, id: text, follow_cursor: text, version: text });
/** Fleets whose members must be checked, with the cursor of the last checked one; taking turns between orgs, without those in `skip`. */
export const listFleetsToFollow = (db: Db, limit: number, skip: readonly string[] = []) =>
  db.many(sql(toFollowRow)`
    select org_id, id, follow_cursor, version from (
      select org_id, id, follow_cursor, xmin::text as version, row_number() over (partition by org_id order by updated_at, id) as turn
      from fleet where follow_cursor is not null and id <> all(${list(skip)}::text[])) as in_turns
    order by turn, org_id, id limit ${limit}`);

/** Moves the cursor. Returns 0 if the fleet has changed since it was read: the next run reads it again. */
export const moveFollowCursor = (db: Db, org_id: string, id: string, version: string, to: string | null): Promise<number> =>
  db.run(sql`update fleet set follow_cursor = ${to} where org_id = ${org_id} and id = ${id} and xmin::text = ${version}`);
