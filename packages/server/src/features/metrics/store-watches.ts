import type { Db } from "../../kernel/db.ts";
import { bytea, int, json, jsonb, list, row, type RowOf, sql, text } from "../../kernel/sql.ts";

const watchRow = row({ key: text, metric: text, labels: jsonb<Record<string, string>>(), minutes: int });
export type Watch = RowOf<typeof watchRow>;

export const listWatches = (db: Db, org_id: string): Promise<Watch[]> =>
  db.many(sql(watchRow)`select ${watchRow} from metric_watch where org_id = ${org_id} order by key`);

/** Replaces the watches of an org. Those that stay keep their values; new ones have no values until robots send samples. */
export async function setWatches(tx: Db, org_id: string, watches: readonly Watch[], now: Date): Promise<void> {
  await tx.run(sql`delete from metric_watch where org_id = ${org_id} and key <> all(${list(watches.map(({ key }) => key))}::text[])`);
  await tx.run(sql`
    insert into metric_watch (org_id, key, metric, labels, minutes, since_at)
    select ${org_id}, w.key, w.metric, w.labels, w.minutes, ${now}
    from jsonb_to_recordset(${json(watches)}::jsonb) as w (key text, metric text, labels jsonb, minutes int)
    on conflict (org_id, key) do nothing`);
}

const chunkRow = row({ robot_id: text, chunk: bytea });

/** Maximum chunks of a robot from which one value is computed: an hour of a robot that flushes each minute. */
const CHUNKS_MAX = 70;

/** Returns the newest chunks of robots that may have samples of their period. A chunk has samples of at most an hour. */
export const listRecentChunks = (db: Db, org_id: string, robots: readonly { robot_id: string; since: Date; until: Date }[]) =>
  db.many(sql(chunkRow)`
    select v.robot_id, c.chunk
    from unnest(${list(robots.map(({ robot_id }) => robot_id))}::text[], ${list(robots.map(({ since }) => since))}::timestamptz[],
      ${list(robots.map(({ until }) => until))}::timestamptz[]) as v (robot_id, since, until)
    cross join lateral (
      select chunk from metric_chunk m
      where m.org_id = ${org_id} and m.robot_id = v.robot_id and m.first_at >= v.since - interval '1 hour' and m.first_at <= v.until
        and m.last_at >= v.since
      order by m.first_at desc, m.seq desc limit ${CHUNKS_MAX}) c`);

export interface NewValue {
  key: string;
  robot_id: string;
  at: Date;
  mean_max: number;
  mean_min: number;
  rate_max: number | null;
}

/** Stores values, unless newer ones are stored, or the watch was removed meanwhile. */
export const putValues = (tx: Db, org_id: string, values: readonly NewValue[]): Promise<number> =>
  tx.run(sql`
    -- Locks the watches first, as their deletion does.
    with watch as materialized (select key from metric_watch where org_id = ${org_id} order by key for key share)
    insert into metric_value as m (org_id, key, robot_id, at, mean_max, mean_min, rate_max)
    select ${org_id}, v.key, v.robot_id, v.at, v.mean_max, v.mean_min, v.rate_max
    from jsonb_to_recordset(${json(values)}::jsonb)
      as v (key text, robot_id text, at timestamptz, mean_max float8, mean_min float8, rate_max float8)
      join watch w on w.key = v.key
    order by v.key, v.robot_id
    on conflict (org_id, key, robot_id) do update
      set at = excluded.at, mean_max = excluded.mean_max, mean_min = excluded.mean_min, rate_max = excluded.rate_max
      where m.at <= excluded.at`);
