import pg from "pg";
import { pack } from "../../packages/server/src/features/logs/codec.ts";
import { RECORDS_PER_BATCH, recordsFrom } from "../log-records.ts";
import type { Rig } from "../rig.ts";

/** The number of rare objects, however large the org; they are evenly distributed. */
export const RARE = 100;
export const ROBOTS_OF_FLEET = 50;
export const ROBOTS_OF_SITE = 100;
const DAYS = 20;
/** Number of log batches of the robot that writes the most logs. */
const BATCHES_OF_LOUD = 400;

/** IDs that the probes use. They are from the middle of the lists, not from the start. */
export interface Filled {
  robots: number;
  fleet: string;
  site: string;
  robot: string;
  /** A release that few robots run. */
  rare_release: string;
  /** A deployment to every robot. */
  deployment: string;
}

/** SQL that encodes `ms`, a time in milliseconds, as the ten digits with which an id begins. A loop over the digits takes five times as long. */
const ID_DIGITS = Array.from(
  { length: 10 },
  (_, i) => `substr('0123456789abcdefghjkmnpqrstvwxyz', ((ms >> ${5 * (9 - i)}) & 31)::int + 1, 1)`,
).join(" || ");

/**
 * SQL functions that generate an id from a prefix and a number, `bench_id_at` also from a time. `n` distinguishes ids of the same
 * millisecond.
 */
const FUNCTIONS = `
  create function bench_id(prefix text, n bigint) returns text immutable parallel safe language sql
    return prefix || '_' || lpad(n::text, 26, '0');
  create function bench_id_at(prefix text, at timestamptz, n bigint) returns text immutable parallel safe language plpgsql as $$
    declare ms bigint := (extract(epoch from at) * 1000)::bigint;
    begin return prefix || '_' || ${ID_DIGITS} || lpad(n::text, 16, '0'); end $$;`;

/** Placeholder for this org's own token: dispatch cancels deployments whose creator does not exist. */
const CREATOR = "{creator}";

/**
 * SQL statements that fill the database. `$1` is the org and `$2` the number of robots. A statement without the org uses `$1` for the
 * number of robots.
 */
const FILL: readonly string[] = [
  `insert into site (org_id, id, name, created_at, updated_at)
   select $1, bench_id('site', n), 'site ' || n, now(), now() from generate_series(0, $2::int / ${ROBOTS_OF_SITE} - 1) n`,
  `insert into fleet (org_id, id, site_id, name, created_at, updated_at)
   select $1, bench_id('fleet', n), bench_id('site', n * ${ROBOTS_OF_FLEET} / ${ROBOTS_OF_SITE}), 'fleet ' || n, now(), now()
   from generate_series(0, $2::int / ${ROBOTS_OF_FLEET} - 1) n`,
  // Every hundredth fleet has a robot that never connected, one that is decommissioned, and one with a rare label.
  `insert into robot (org_id, id, name, site_id, fleet_id, labels, public_key, kinds, node_id, node_epoch, connected_at, last_seen_at, decommissioned_at, created_at, updated_at)
   select $1, bench_id('rob', n), 'robot-' || lpad(((n * 7919::bigint) % 1000003)::text, 7, '0'), bench_id('site', n / ${ROBOTS_OF_SITE}), bench_id('fleet', n / ${ROBOTS_OF_FLEET}),
     jsonb_build_object('zone', case when n % ($2::int / ${RARE}) = 5 then 'rare' else 'z' || n % 50 end, 'model', 'm' || n % 4), decode(md5(n::text) || md5(n::text || 'b'), 'hex'), '["app_bundle"]',
     case when is_on then 'node_bench' end, case when is_on then 1 end, case when not is_new then now() end, case when not is_new then now() end, case when is_gone then now() end, now(), now()
   from (select n, n % 10 < 6 and n % ($2::int / ${RARE}) not in (3, 4) as is_on, n % ($2::int / ${RARE}) = 3 as is_new, n % ($2::int / ${RARE}) = 4 as is_gone
     from generate_series(0, $2::int - 1) n) robots`,
  `insert into robot_key (public_key, org_id, robot_id, created_at) select public_key, org_id, id, now() from robot where org_id = $1 and $2::int > 0`,
  // As the triggers do, which are off while the database is filled.
  `insert into robot_label (org_id, key, value, robot_id)
   select r.org_id, l.key, l.value, r.id from robot r cross join lateral jsonb_each_text(r.labels) l where r.org_id = $1 and $2::int > 0`,
  // A hundred robots each without health, a release or a config.
  `insert into robot_unknown (org_id, state, robot_id)
   select $1, s.state, bench_id('rob', n * ($2::int / ${RARE}) + s.offset_of_first) from generate_series(0, ${RARE - 1}) n
     cross join (values ('health', 7), ('release', 11), ('config', 15)) s (state, offset_of_first)`,
  `insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
   select $1, bench_id('rob', n), now(), '{"cpu_percent": 12.5, "memory": {"used_bytes": 1200000000, "total_bytes": 8000000000}, "disks": []}',
     case when n % ($2::int / ${RARE}) = 6 then 'failing' else 'ok' end, case when n % ($2::int / ${RARE}) = 6 then '["a disk is full"]'::jsonb else '[]' end
   from generate_series(0, $2::int - 1) n where n % ($2::int / ${RARE}) <> 7`,
  `insert into release (org_id, id, tag, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
   select $1, bench_id('rel', n), 'v' || n, 'app_bundle', md5(n::text) || md5(n::text), 1000, 'stored', now(), now() from generate_series(0, $2::int / 10 - 1) n`,
  `insert into robot_app (org_id, robot_id, app, current_release_id, desired_release_id, failed_release_id, status, updated_at)
   select $1, bench_id('rob', n), 'main', case when n % ($2::int / ${RARE}) = 8 then bench_id('rel', 1) else bench_id('rel', $2::int / 10 - 1) end,
     case when n % ($2::int / ${RARE}) = 9 then bench_id('rel', 2) else case when n % ($2::int / ${RARE}) = 8 then bench_id('rel', 1) else bench_id('rel', $2::int / 10 - 1) end end,
     case when n % ($2::int / ${RARE}) = 10 then bench_id('rel', 3) end, 'running', now()
   from generate_series(0, $2::int - 1) n where n % ($2::int / ${RARE}) <> 11`,
  `insert into robot_app (org_id, robot_id, app, current_release_id, desired_release_id, status, updated_at)
   select $1, bench_id('rob', n), 'arm', bench_id('rel', 4), bench_id('rel', 4), 'running', now() from generate_series(0, $2::int - 1) n where n % ($2::int / ${RARE}) = 12`,
  `insert into robot_config (org_id, robot_id, namespace, version, content, sha256, reported_version, reported_sha256, updated_at)
   select $1, bench_id('rob', n), 'navigation', 1, '{"speed":1}', 'a', case when n % ($2::int / ${RARE}) = 14 then 0 else 1 end, case when n % ($2::int / ${RARE}) in (13, 14) then 'b' else 'a' end, now()
   from generate_series(0, $2::int - 1) n where n % ($2::int / ${RARE}) <> 15`,
  `insert into timeline_entry (org_id, robot_id, id, at, kind, actor, summary, data)
   select $1, bench_id('rob', n % $2::int), bench_id_at('evt', at, n), at, case when n % (2 * $2::int / ${RARE}) = 3 then 'shell' else 'online' end, '{"type":"system","id":"system","name":"system"}', 'came online', '{}'
   from (select n, now() - interval '${DAYS} days' * (1 - n::float8 / (2 * $2::int)) as at from generate_series(0, 2 * $2::int - 1) n) entries`,
  `insert into audit_entry (org_id, id, at, actor, action, method, path, object_id, status, error, ip, request_id)
   select $1, bench_id_at('aud', at, n), at, '${CREATOR}', case when n % ($2::int / ${RARE}) = 3 then 'deleteSite' else 'updateRobot' end, 'PATCH', '/api/robots/x',
     bench_id('rob', n), 200, case when n % ($2::int / ${RARE}) = 4 then 'conflict' end, '127.0.0.1', 'req_' || n
   from (select n, now() - interval '${DAYS} days' * (1 - n::float8 / $2::int) as at from generate_series(0, $2::int - 1) n) entries`,
  `insert into user_account (id, email, name, created_at, updated_at)
   select bench_id('usr', n), 'u' || n || '@example.com', 'User ' || n, now(), now() from generate_series(0, $1::int / 100 - 1) n`,
  `insert into membership (org_id, user_id, role, created_at, updated_at) select $1, bench_id('usr', n), 'viewer', now(), now() from generate_series(0, $2::int / 100 - 1) n`,
  `insert into credential (id, hash, kind, org_id, user_id, role, prefix, created_at, updated_at)
   select bench_id('tok', n), decode(md5(n::text), 'hex'), 'user', $1, bench_id('usr', n), 'viewer', 'rf_user_', now(), now() from generate_series(0, $2::int / 100 - 1) n`,
  `insert into enrollment_key (org_id, id, hash, site_id, fleet_id, max_uses, revoked_at, created_at, updated_at)
   select $1, bench_id('key', n), decode(md5('k' || n), 'hex'), bench_id('site', n), bench_id('fleet', n), 1, case when n % ($2::int / 10000) = 0 then now() end, now(), now() from generate_series(0, $2::int / 100 - 1) n`,
  `insert into config_entry (org_id, id, namespace, key, scope, scope_id, value, version, created_at, updated_at)
   select $1, bench_id('cfg', n), 'navigation', 'speed', 'robot', bench_id('rob', n), '1', 1, now(), now() from generate_series(0, $2::int / 10 - 1) n`,
  `insert into deployment (org_id, id, kind, target_kind, robot_id, fleet_id, release_id, app, status, fan_out_at, fan_out_done_at, count_total, finished_at, created_by, created_at, updated_at)
   select $1, bench_id_at('dep', at, n), 'release', case when n % 2 = 0 then 'robot' else 'fleet' end, case when n % 2 = 0 then bench_id('rob', n) end, case when n % 2 = 1 then bench_id('fleet', n / 20) end,
     bench_id('rel', n), 'main', case when n % ($2::int / 10 / ${RARE}) = 3 then 'failed' else 'applied' end, at, at, 1, at, '${CREATOR}', at, at
   from (select n, now() - interval '${DAYS} days' * (1 - n::float8 / ($2::int / 10)) as at from generate_series(0, $2::int / 10 - 1) n) deployments`,
  // One deployment to every robot, and one whose targets wait until tomorrow.
  `insert into deployment (org_id, id, kind, target_kind, fleet_id, release_id, app, status, fan_out_at, fan_out_done_at, count_total, finished_at, created_by, created_at, updated_at)
   values ($1, 'dep_all', 'release', 'fleet', bench_id('fleet', 0), bench_id('rel', 1), 'main', 'applied', now(), now(), $2::int, now(), '${CREATOR}', now(), now()),
     ($1, 'dep_waits', 'release', 'fleet', bench_id('fleet', 0), bench_id('rel', 1), 'main', 'in_progress', now(), now(), $2::int, null, '${CREATOR}', now(), now())`,
  `insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, created_at, updated_at)
   select $1, 'dep_all', bench_id('tgt', n), 'release', bench_id('rob', n), 'main', bench_id('rel', 1), case when n % ($2::int / ${RARE}) = 3 then 'failed' else 'applied' end, now(), now() from generate_series(0, $2::int - 1) n`,
  `insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, waiting_for, not_before_at, created_at, updated_at)
   select $1, 'dep_waits', bench_id('tgt', $2::int + n), 'release', bench_id('rob', n), 'main', bench_id('rel', 1), 'queued', case when n % 10 <> 0 then 'robot_online' end, now() + interval '1 day', now(), now()
   from generate_series(0, $2::int - 1) n`,
  `insert into deployment (org_id, id, kind, target_kind, robot_id, release_id, app, status, scheduled_at, created_by, created_at, updated_at)
   select $1, bench_id('dep_due', n), 'release', 'robot', bench_id('rob', n), bench_id('rel', 1), 'main', 'scheduled', now() + interval '1 day', '${CREATOR}', now(), now()
   from generate_series(0, $2::int / 10 - 1) n`,
  `insert into deployment_due (org_id, id, due_at) select $1, bench_id('dep_due', n), now() + interval '1 day' + n * interval '1 ms' from generate_series(0, $2::int / 10 - 1) n`,
  `insert into idempotency (org_id, method, route, key, body_hash, status, response, expires_at, created_at)
   select $1, 'POST', '/api/sites', 'key-' || n, decode(md5(n::text), 'hex'), 201, '{}', now() + interval '1 day' + n * interval '1 ms', now() from generate_series(0, $2::int / 10 - 1) n`,
];

const LOGS = [
  `insert into log_batch (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
   select $1, bench_id('rob', n), 1, ${RECORDS_PER_BATCH}, at, at, at, ${RECORDS_PER_BATCH}, $3, $4
   from (select n, now() - interval '1 hour' * (1 - n::float8 / $2::int) as at from generate_series(0, $2::int - 1) n) batches`,
  `insert into log_batch (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
   select $1, bench_id('rob', $2::int / 2), n * ${RECORDS_PER_BATCH} + 1, (n + 1) * ${RECORDS_PER_BATCH}, at, at, at, ${RECORDS_PER_BATCH}, $3, $4
   from (select n, now() - interval '2 hours' + n * interval '10 s' as at from generate_series(0, ${BATCHES_OF_LOUD}) n) batches`,
];

/**
 * Drops all indexes that are not of a constraint. Returns the statements that create them again: on a filled table, this is faster than
 * inserting into them row by row.
 */
async function dropIndexes(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string; create: string }>(`
    select i.indexrelid::regclass::text as name, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') as create
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relnamespace = 'public'::regnamespace and not c.relispartition and not exists (select from pg_constraint where conindid = i.indexrelid)`);
  for (const { name } of rows) await client.query(`drop index ${name}`);
  return rows.map(({ create }) => create);
}

/** Fills the rig's database with an org of this many robots and their data of one month. Online robots are on `node_bench`. */
export async function fill({ database, org_id, api }: Rig, robots: number): Promise<Filled> {
  const client = new pg.Client(database);
  await client.connect();
  try {
    // The keys refer to existing rows by construction; checking them takes most of the time.
    await client.query("set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '512MB'");
    await client.query(FUNCTIONS);
    // Four of ten robots are offline. Storing that as matches of the default rules keeps PostgreSQL busy for minutes, also while others are measured.
    await client.query("update alert_rule set disabled_at = now() where org_id = $1", [org_id]);
    const indexes = await dropIndexes(client);
    const creator = JSON.stringify((await api.getMe()).data.actor);
    for (const statement of FILL.map((text) => text.replaceAll(CREATOR, creator))) {
      const values = statement.includes("$2") ? [org_id, robots] : statement.includes("$1") ? [robots] : [];
      await client.query(statement, values);
    }
    const { codec, packed } = pack(recordsFrom(1));
    for (const statement of LOGS) await client.query(statement, [org_id, robots, codec, packed]);
    for (const index of indexes) await client.query(index);
    await client.query("vacuum analyze");
    await client.query("checkpoint");
  } finally {
    await client.end();
  }
  const id = (prefix: string, n: number): string => `${prefix}_${String(n).padStart(26, "0")}`;
  const middle = robots / 2;
  return {
    robots,
    fleet: id("fleet", middle / ROBOTS_OF_FLEET),
    site: id("site", middle / ROBOTS_OF_SITE),
    robot: id("rob", middle),
    rare_release: id("rel", 1),
    deployment: "dep_all",
  };
}
