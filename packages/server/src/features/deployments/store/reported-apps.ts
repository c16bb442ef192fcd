import { APPS_MAX } from "@roamfleet/protocol/link";
import type { Db } from "../../../kernel/db.ts";
import { int, list, row, sql, text } from "../../../kernel/sql.ts";

/**
 * Stores which releases the robots report to run, each robot at most once. Without an open target the reported release also becomes the
 * desired one, since the robot decides locally. An app that is new to the server is ignored if the robot already has APPS_MAX apps.
 */
export const setAppsReported = (
  db: Db,
  org_id: string,
  apps: readonly { robot_id: string; app: string; release_id: string | null; previous_release_id: string | null; status: string }[],
  now: Date,
) =>
  db.run(sql`
    insert into robot_app (org_id, robot_id, app, current_release_id, previous_release_id, desired_release_id, status, updated_at)
    select ${org_id}, a.robot_id, a.app, a.release_id, a.previous_release_id, a.release_id, a.status, ${now}
    from unnest(${list(apps.map((a) => a.robot_id))}::text[], ${list(apps.map((a) => a.app))}::text[], ${list(apps.map((a) => a.release_id))}::text[],
      ${list(apps.map((a) => a.previous_release_id))}::text[], ${list(apps.map((a) => a.status))}::text[]) as a (robot_id, app, release_id, previous_release_id, status)
    where exists (select from robot_app known where known.org_id = ${org_id} and known.robot_id = a.robot_id and known.app = a.app)
      or (select count(*) from robot_app known where known.org_id = ${org_id} and known.robot_id = a.robot_id) < ${APPS_MAX}
    order by a.robot_id
    on conflict (org_id, robot_id, app) do update set current_release_id = excluded.current_release_id, previous_release_id = excluded.previous_release_id, status = excluded.status,
      desired_release_id = case when robot_app.target_id is null then excluded.current_release_id else robot_app.desired_release_id end, updated_at = excluded.updated_at`);

/** Returns robots that have APPS_MAX apps, not including this one. The caller has locked their generations, so that none is added meanwhile. */
export const listFullRobots = async (db: Db, org_id: string, robot_ids: readonly string[], app: string): Promise<Set<string>> =>
  new Set(
    (
      await db.many(sql(row({ robot_id: text }))`
        select robot_id from robot_app where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])
        group by robot_id having count(*) >= ${APPS_MAX} and not bool_or(app = ${app})`)
    ).map(({ robot_id }) => robot_id),
  );

/** Returns how many apps a robot has besides this one. */
export const countOtherApps = async (db: Db, org_id: string, robot_id: string, app: string): Promise<number> =>
  (
    await db.one(sql(row({ apps: int }))`
      select count(*)::int as apps from robot_app where org_id = ${org_id} and robot_id = ${robot_id} and app <> ${app}`)
  ).apps;
