import type { TargetSelector } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { bool, equals, int, json, list, row, sql, type Statement, text } from "../../../kernel/sql.ts";
import type { DeploymentRow } from "./rows.ts";

const NOTHING = sql``;

/** Condition ` and …` on robot r: it matches all parts of the selector. The first label is looked up in its index. */
export function isSelected({ site_id, fleet_id, labels, robot_ids }: TargetSelector): Statement<unknown> {
  const [label] = Object.entries(labels ?? {});
  return sql`
    ${equals({ "r.site_id": site_id, "r.fleet_id": fleet_id })}
    ${
      label === undefined
        ? NOTHING
        : sql`and r.labels @> ${json(labels)}::jsonb
          -- reads tables of other features: robot_label
          and exists (select from robot_label l where l.org_id = r.org_id and l.robot_id = r.id and l.key = ${label[0]} and l.value = ${label[1]})`
    }
    ${robot_ids === undefined ? NOTHING : sql`and r.id = any(${list(robot_ids)}::text[])`}`;
}

type Selecting = Pick<DeploymentRow, "org_id" | "id">;

/**
 * Stores the robots that the selector matches now, and returns their number. One statement reads all of them, so a robot that changes
 * meanwhile is included or not as it was at one moment, in whatever transaction its target is written.
 */
export const storeSelected = async (db: Db, { org_id, id }: Selecting, selector: TargetSelector, arch: string | null): Promise<number> =>
  (
    await db.one(sql(row({ count: int }))`
      -- reads tables of other features: robot
      update deployment set fan_out_robots = array(
        select r.id from robot r where r.org_id = ${org_id} and r.decommissioned_at is null
          and (${arch}::text is null or r.platform ->> 'arch' = ${arch}) ${isSelected(selector)} order by r.id)
      where org_id = ${org_id} and id = ${id} returning cardinality(fan_out_robots) as count`)
  ).count;

/**
 * Selects the stored robots after the first `done`, which have a target, with the release that they get. Reads no robots, so that a chunk
 * costs no join. The target of a robot that was removed since ends when it would be dispatched.
 */
export const selectStored = ({ org_id, id }: Selecting, release_id: string | null, done: number, limit: number) => sql`
  select unnest(fan_out_robots[${done + 1}::int : ${done + limit}::int]) as robot_id, ${release_id}::text as release_id
  from deployment where org_id = ${org_id} and id = ${id}`;

export const deleteSelected = (db: Db, { org_id, id }: Selecting) =>
  db.run(sql`update deployment set fan_out_robots = null where org_id = ${org_id} and id = ${id}`);

/** The names of these sites and fleets by id. */
export const listPlaceNames = async (db: Db, org_id: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> =>
  new Map(
    (
      await db.many(sql(row({ id: text, name: text }))`
        -- reads tables of other features: site, fleet
        select id, name from site where org_id = ${org_id} and id = any(${list(ids)}::text[])
        union all select id, name from fleet where org_id = ${org_id} and id = any(${list(ids)}::text[])`)
    ).map(({ id, name }) => [id, name]),
  );

export const siteExists = async (db: Db, org_id: string, id: string): Promise<boolean> =>
  (await db.maybe(sql(row({ id: text }))`
    -- reads tables of other features: site
    select id from site where org_id = ${org_id} and id = ${id}`)) !== undefined;

export const findFleetSite = async (db: Db, org_id: string, id: string): Promise<string | undefined> =>
  (
    await db.maybe(sql(row({ site_id: text }))`
      -- reads tables of other features: fleet
      select site_id from fleet where org_id = ${org_id} and id = ${id}`)
  )?.site_id;

/** Returns which of these robots exist, with whether they are decommissioned. */
export const listSelectable = (db: Db, org_id: string, ids: readonly string[]) =>
  db.many(sql(row({ id: text, decommissioned: bool }))`
    -- reads tables of other features: robot
    select id, decommissioned_at is not null as decommissioned from robot where org_id = ${org_id} and id = any(${list(ids)}::text[])`);
