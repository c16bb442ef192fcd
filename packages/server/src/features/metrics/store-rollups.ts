import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import {
  bigint,
  bool,
  bytea,
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
import { dayOf, packedBytes, type Rollup, type Step, STEPS } from "./rollup.ts";

/** Maximum names of the org that are considered. */
const NAMES_LOOKED_AT_MAX = 5_000;

const dueRow = row({ org_id: text, robot_id: text });
export type DueRobot = RowOf<typeof dueRow>;

/**
 * Returns robots with chunks that are not in their rollups, of all orgs, the longest waiting first: those whose rollups were written before
 * `before`, and those with at least `chunks` such chunks.
 */
export const listDueRobots = (
  db: SystemDb,
  { before, chunks, limit }: { before: Date; chunks: number; limit: number },
): Promise<DueRobot[]> =>
  db.many(sql(dueRow)`
    -- across orgs: all robots share the time for rollups
    select p.org_id, p.robot_id from metric_position p
    left join metric_rollup_position r on r.org_id = p.org_id and r.robot_id = p.robot_id
    where p.last_number > coalesce(r.number, 0)
      and (r.number is null or r.updated_at <= ${before} or p.last_number - r.number >= ${chunks}::bigint)
    order by r.updated_at nulls first limit ${limit}`);

const positionRow = row({ number: bigint, chunk_from: nullable(timestamptz), last_number: bigint });

/**
 * Locks a robot's position until the transaction ends. Returns it with the number of the last stored chunk; undefined while another node has
 * locked it. Storing chunks does not wait for it.
 */
export async function lockPosition(tx: Db, org_id: string, robot_id: string, now: Date): Promise<RowOf<typeof positionRow> | undefined> {
  await tx.run(sql`
    -- Begins at the first chunk that still exists. Its number is high if the robot is older than this table.
    insert into metric_rollup_position (org_id, robot_id, number, updated_at)
    select ${org_id}, ${robot_id}, coalesce(min(number) - 1, 0), ${now} from metric_chunk
    where org_id = ${org_id} and robot_id = ${robot_id} and number > 0
    having not exists (select from metric_rollup_position where org_id = ${org_id} and robot_id = ${robot_id})
    on conflict do nothing`);
  return tx.maybe(sql(positionRow)`
    select r.number, r.chunk_from, p.last_number
    from metric_rollup_position r join metric_position p on p.org_id = r.org_id and p.robot_id = r.robot_id
    where r.org_id = ${org_id} and r.robot_id = ${robot_id} for update of r skip locked`);
}

export const putPosition = (
  tx: Db,
  org_id: string,
  { robot_id, number, chunk_from, now }: { robot_id: string; number: number; chunk_from: Date | null; now: Date },
): Promise<number> =>
  tx.run(sql`
    update metric_rollup_position set number = ${number}, chunk_from = ${chunk_from}, updated_at = ${now}
    where org_id = ${org_id} and robot_id = ${robot_id}`);

const newRow = row({ first_at: timestamptz, chunk: bytea });
export type NumberedChunk = RowOf<typeof newRow>;

/** Returns a robot's chunks with the numbers after `after` to `to` that begin at `from` or later, in the order of their numbers. */
export const chunksNumbered = (
  db: Db,
  org_id: string,
  { robot_id, after, to, from }: { robot_id: string; after: number; to: number; from: Date | null },
): Promise<NumberedChunk[]> =>
  db.many(sql(newRow)`
    select first_at, chunk from metric_chunk
    where org_id = ${org_id} and robot_id = ${robot_id} and number > ${after} and number <= ${to}
      ${from === null ? sql`` : sql`and first_at >= ${from}`}
    order by number`);

/** Replaces rollups of a robot and day. */
export async function putRollups(
  tx: Db,
  org_id: string,
  { robot_id, day }: { robot_id: string; day: Date },
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

const rollupRow = row({
  robot_id: text,
  name: text,
  step_seconds: int,
  labels: jsonb<Record<string, string>>(),
  day: timestamptz,
  intervals: bytea,
});
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
        (select name, 1 as nth from metric_rollup where org_id = ${caller.org_id} and day >= ${startOfDay(since)} order by name limit 1)
        union all
        select (select m.name from metric_rollup m where m.org_id = ${caller.org_id} and m.name > n.name and m.day >= ${startOfDay(since)}
          order by m.name limit 1), n.nth + 1
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

/** A robot with the places and labels by which its series are grouped. */
export type GroupedRobot = RowOf<typeof robotRow>;

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

const startOfDay = (at: Date): Date => new Date(dayOf(at.getTime()));

/** Returns the rollups of one robot in a period. Without `step_seconds`, those of both lengths; without `names`, those of all metrics. */
export const rollupsOfRobot = (
  db: Db,
  org_id: string,
  robot_id: string,
  { since, until, step_seconds, names }: Omit<Period, "step_seconds"> & { step_seconds?: Step; names?: ReadonlySet<string> | undefined },
): Promise<RollupRow[]> =>
  db.many(sql(rollupRow)`
    select ${rollupRow} from metric_rollup
    where org_id = ${org_id} and robot_id = ${robot_id} and day >= ${startOfDay(since)} and day < ${until} ${step_seconds === undefined ? sql`` : sql`and step_seconds = ${step_seconds}`}
      ${names === undefined ? sql`` : sql`and name = any(${list([...names])}::text[])`}`);

/**
 * A condition on robots that is no condition of the index: planning with 1,000 values takes 60 ms, and the rows of a day are beside each other.
 * A prepared plan would compare each row with each value of an array, but finds the key of an object by a binary search.
 */
const amongRobots = (robots: readonly string[]): Statement<unknown> =>
  sql`${json(Object.fromEntries(robots.map((id) => [id, 1])))}::jsonb ? robot_id`;

const dayRow = row({ day: timestamptz, robots: text, labels: text, intervals: bytea });

/**
 * Returns the rollups of hours of one metric of these robots in a period; without `extremes` those without lowest and highest values, which is
 * half of the bytes. A day is one row: reading 30,000 rows takes the server three times as long.
 */
export async function hoursOfMetric(
  db: Db,
  org_id: string,
  { name, robots, since, until, extremes }: Omit<Period, "step_seconds"> & { name: string; robots: readonly string[]; extremes: boolean },
): Promise<Iterable<RollupRow>> {
  const [step_seconds, bytes] = [STEPS[1], packedBytes(STEPS[1], extremes)];
  const days = await db.many(sql(dayRow)`
    select day, string_agg(robot_id, ' ') as robots, string_agg(labels::text, chr(10)) as labels,
      string_agg(substring(intervals from 1 for ${bytes}), ''::bytea) as intervals
    from metric_rollup
    where org_id = ${org_id} and name = ${name} and step_seconds = ${step_seconds} and day >= ${startOfDay(since)} and day < ${until}
      and ${amongRobots(robots)}
    group by day`);
  return rollupsIn(days, { name, step_seconds, bytes });
}

/**
 * Yields the rollups of the given days one after the other. An array of all of them, up to 30,000, would make garbage collection slower. For
 * the same reason, each distinct set of labels is parsed once, and its rollups refer to the same object.
 */
function* rollupsIn(
  days: readonly RowOf<typeof dayRow>[],
  { name, step_seconds, bytes }: { name: string; step_seconds: Step; bytes: number },
): Generator<RollupRow> {
  const parsed = new Map<string, Record<string, string>>();
  for (const { day, robots, labels, intervals } of days) {
    const texts = labels.split("\n"); // the text of jsonb has no line breaks
    for (const [i, robot_id] of robots.split(" ").entries()) {
      const json_text = texts[i] ?? "{}";
      const shared = parsed.get(json_text) ?? (JSON.parse(json_text) as Record<string, string>);
      parsed.set(json_text, shared);
      yield { robot_id, name, labels: shared, step_seconds, day, intervals: intervals.subarray(i * bytes, (i + 1) * bytes) };
    }
  }
}

const foundRow = row({ found: bool });

/**
 * Whether robots sent buckets (`le`) or quantiles of a metric in a period, which makes it a histogram or a summary. Only the primary key is
 * read.
 */
export const isDistribution = async (
  db: Db,
  org_id: string,
  name: string,
  { robots, since, until }: Omit<Period, "step_seconds"> & { robots: readonly string[] },
): Promise<boolean> =>
  (
    await db.one(sql(foundRow)`
      select exists (
        select from metric_rollup
        where org_id = ${org_id} and name = any(${list([name, `${name}_bucket`])}::text[]) and step_seconds = ${STEPS[1]}
          and day >= ${startOfDay(since)} and day < ${until} and labels ? (case when name = ${name} then 'quantile' else 'le' end)
          and ${amongRobots(robots)}) as found`)
  ).found;

/** Returns the rollups of one metric of these robots in a period. */
export const rollupsOfMetric = (
  db: Db,
  org_id: string,
  { name, robots, since, until, step_seconds }: Period & { name: string; robots: readonly string[] },
): Promise<RollupRow[]> =>
  db.many(sql(rollupRow)`
    select ${rollupRow} from metric_rollup
    where org_id = ${org_id} and name = ${name} and step_seconds = ${step_seconds} and day >= ${startOfDay(since)} and day < ${until}
      and ${amongRobots(robots)}`);
