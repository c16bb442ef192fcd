import type { Db } from "../../kernel/db.ts";
import { json, row, sql, text } from "../../kernel/sql.ts";

/** What a fleet has of an app, and the deployment that brought it there. */
export interface FleetRelease {
  id: string;
  tag: string;
  deployment_id: string;
}

/**
 * From now on the fleet has this release of the app, or none (null): its members are looked at again. What a deployment
 * brought that began later stays.
 */
export const setFleetDesired = (
  db: Db,
  fleet: { org_id: string; id: string },
  app: string,
  desired: FleetRelease | null,
  began_at: Date,
  now: Date,
): Promise<number> =>
  db.run(sql`
    -- reads: deployment
    update fleet f set desired = case when ${desired === null} then f.desired - ${app}::text else f.desired || jsonb_build_object(${app}::text, ${json(desired)}::jsonb) end,
      follow_cursor = '', updated_at = ${now}
    where org_id = ${fleet.org_id} and id = ${fleet.id} and not exists (
      select from deployment d where d.org_id = f.org_id and d.id = f.desired -> ${app}::text ->> 'deployment_id' and d.fan_out_at > ${began_at})`);

/** The same of its config: the deployment is the revision. */
export const setFleetConfig = (
  db: Db,
  fleet: { org_id: string; id: string },
  revision: string,
  began_at: Date,
  now: Date,
): Promise<number> =>
  db.run(sql`
    -- reads: deployment
    update fleet f set config_revision = ${revision}, follow_cursor = '', updated_at = ${now}
    where org_id = ${fleet.org_id} and id = ${fleet.id} and not exists (
      select from deployment d where d.org_id = f.org_id and d.id = f.config_revision and d.fan_out_at > ${began_at})`);

const toFollowRow = row({ org_id: text, id: text, follow_cursor: text });
/** Fleets whose members are to be looked at, each behind the last one that was. */
export const listFleetsToFollow = (db: Db, limit: number) =>
  db.many(sql(toFollowRow)`select org_id, id, follow_cursor from fleet where follow_cursor is not null limit ${limit}`);

/** 0 when the fleet has something else meanwhile, and begins anew. */
export const moveFollowCursor = (db: Db, org_id: string, id: string, from: string, to: string | null): Promise<number> =>
  db.run(sql`update fleet set follow_cursor = ${to} where org_id = ${org_id} and id = ${id} and follow_cursor = ${from}`);
