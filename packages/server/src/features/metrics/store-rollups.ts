import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { bytea, equals, json, jsonb, list, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";
import type { GroupedRobot } from "./group.ts";
import { DAY_MS, type Rollup, type Step, STEPS } from "./rollup.ts";

/** Maximum names of the org that are considered. */
const NAMES_LOOKED_AT_MAX = 5_000;

const dueRow = row({ org_id: text, robot_id: text, day: timestamptz });
export type DueDay = RowOf<typeof dueRow>;

/** Returns days of robots that have chunks without a rollup, of all orgs, the longest waiting first. */
export const listDueDays = (db: SystemDb, limit: number): Promise<DueDay[]> =>
  db.many(sql(dueRow)`select ${dueRow} from metric_rollup_due order by marked_at limit ${limit}`);

/**
 * Removes the mark of a day. Returns false if another node has removed it. A chunk that is stored until the transaction ends waits for it,
 * and marks the day again.
 */
export const takeDueDay = async (tx: Db, org_id: string, { robot_id, day }: Pick<DueDay, "robot_id" | "day">): Promise<boolean> =>
  (await tx.run(sql`
    delete from metric_rollup_due where org_id = ${org_id} and robot_id = ${robot_id} and day in (
      select day from metric_rollup_due where org_id = ${org_id} and robot_id = ${robot_id} and day = ${day} for update skip locked)`)) > 0;

/** Replaces the rollups of a robot and day. */
export async function putRollups(
  tx: Db,
  org_id: string,
  { robot_id, day }: Pick<DueDay, "robot_id" | "day">,
  rollups: readonly Rollup[],
): Promise<void> {
  if (rollups.length === 0) return;
  let end = 1;
  const begins = rollups.map(({ intervals }) => (end += intervals.length) - intervals.length);
  // As for chunks, the bytes of all rows are one parameter.
  await tx.run(sql`
    insert into metric_rollup (org_id, name, step_seconds, day, robot_id, labels, intervals)
    select ${org_id}, v.name, v.step_seconds, ${day}, ${robot_id}, v.labels::jsonb,
      substring(${Buffer.concat(rollups.map(({ intervals }) => intervals))}::bytea from v.begins for v.bytes)
    from unnest(${list(rollups.map(({ name }) => name))}::text[], ${list(rollups.map(({ step_seconds }) => step_seconds))}::int[],
      ${list(rollups.map(({ labels }) => JSON.stringify(labels)))}::text[], ${list(begins)}::int[],
      ${list(rollups.map(({ intervals }) => intervals.length))}::int[]) as v (name, step_seconds, labels, begins, bytes)
    on conflict (org_id, name, step_seconds, day, robot_id, labels) do update set intervals = excluded.intervals`);
}

const rollupRow = row({ robot_id: text, name: text, labels: jsonb<Record<string, string>>(), day: timestamptz, intervals: bytea });
export type RollupRow = RowOf<typeof rollupRow>;

interface Period {
  since: Date;
  until: Date;
  step_seconds: Step;
}

const nameRow = row({ name: text });

/**
 * Returns the names of metrics that robots sent since a day and that the caller may see, in order. Jumps from name to name in the index,
 * because each name has as many rows as robots.
 */
export const listNames = async (db: Db, caller: Caller, since: Date, limit: number): Promise<string[]> =>
  (
    await db.many(sql(nameRow)`
      with recursive names as (
        (select name, 1 as nth from metric_rollup where org_id = ${caller.org_id} order by name limit 1)
        union all
        select (select m.name from metric_rollup m where m.org_id = ${caller.org_id} and m.name > n.name order by m.name limit 1), n.nth + 1
        from names n where n.name is not null and n.nth < ${NAMES_LOOKED_AT_MAX})
      -- reads tables of other features: robot
      select n.name from names n where n.name is not null and exists (
        select from metric_rollup m join robot r on r.org_id = m.org_id and r.id = m.robot_id
        where m.org_id = ${caller.org_id} and m.name = n.name and m.step_seconds = ${STEPS[1]} and m.day >= ${startOfDay(since)}
          ${visible(caller, "r.site_id", "r.fleet_id")})
      order by n.name limit ${limit}`)
  ).map(({ name }) => name);

const robotRow = row({
  id: text,
  name: text,
  site_id: text,
  site_name: text,
  fleet_id: text,
  fleet_name: text,
  labels: jsonb<Record<string, string>>(),
});

export interface RobotScope {
  site_id?: string | undefined;
  fleet_id?: string | undefined;
  /** Empty: all robots of the site or fleet. */
  robots: readonly string[];
  labels: readonly { key: string; value: string }[];
}

/** Returns the robots of a scope that the caller may see, with the names by which their metrics are grouped. */
export const listScope = (
  db: Db,
  caller: Caller,
  { site_id, fleet_id, robots, labels }: RobotScope,
  limit: number,
): Promise<GroupedRobot[]> =>
  // reads tables of other features: robot, site, fleet
  db.many(sql(robotRow)`
    select r.id, r.name, r.site_id, s.name as site_name, r.fleet_id, f.name as fleet_name, r.labels
    from robot r join site s on s.org_id = r.org_id and s.id = r.site_id join fleet f on f.org_id = r.org_id and f.id = r.fleet_id
    where r.org_id = ${caller.org_id} and r.decommissioned_at is null ${visible(caller, "r.site_id", "r.fleet_id")}
      ${equals({ "r.site_id": site_id, "r.fleet_id": fleet_id })} ${robots.length === 0 ? sql`` : sql`and r.id = any(${list(robots)}::text[])`}
      ${labels.length === 0 ? sql`` : sql`and r.labels @> ${json(Object.fromEntries(labels.map(({ key, value }) => [key, value])))}::jsonb`}
    limit ${limit}`);

const startOfDay = (at: Date): Date => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS);

/** Returns the rollups of one robot in a period, of all metrics. */
export const rollupsOfRobot = (db: Db, org_id: string, robot_id: string, { since, until, step_seconds }: Period): Promise<RollupRow[]> =>
  db.many(sql(rollupRow)`
    select ${rollupRow} from metric_rollup
    where org_id = ${org_id} and robot_id = ${robot_id} and day >= ${startOfDay(since)} and day < ${until} and step_seconds = ${step_seconds}`);

/** Returns the rollups of one metric of these robots in a period. */
export const rollupsOfMetric = (
  db: Db,
  org_id: string,
  { name, robots, since, until, step_seconds }: Period & { name: string; robots: readonly string[] },
): Promise<RollupRow[]> =>
  db.many(sql(rollupRow)`
    select ${rollupRow} from metric_rollup
    where org_id = ${org_id} and name = ${name} and step_seconds = ${step_seconds} and day >= ${startOfDay(since)} and day < ${until}
      and robot_id = any(${list(robots)}::text[])`);
