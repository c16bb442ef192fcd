import type { Clock } from "@roamfleet/clock";
import type pg from "pg";
import type { DbAddress } from "./connections.ts";
import { MIGRATION_TABLE, MIGRATIONS_DIRECTORY, migrationsIn, oneAhead } from "./migrate.ts";
import { withClient } from "./with-client.ts";

/** Result of checking a database. */
export interface DatabaseSeen {
  user: string;
  database: string;
  /** Version as PostgreSQL numbers it: 150004 is 15.4. */
  version: number;
  version_name: string;
  encoding: string;
  /** The settings fsync, synchronous_commit and full_page_writes. */
  durability: Readonly<Record<string, string>>;
  /** Why writes are impossible: a standby server, or a read-only setting. Undefined: writes are possible. */
  read_only: "replica" | "settings" | undefined;
  /** Connections available to a non-superuser: max_connections, or a lower limit of the role or the database. */
  connections_max: number;
  /** Connections in use by programs other than Roamfleet. */
  connections_of_others: number;
  /** Whether the user may create tables in the schema public. */
  may_create: boolean;
  /** Whether the user may switch to the role that row-level security applies to. */
  may_serve_orgs: boolean;
  is_encrypted: boolean;
  /** Duration of the fastest of several round trips. */
  round_trip_ms: number;
  /** The database's clock minus the local clock, with an error of up to half a round trip. */
  clock_ahead_ms: number;
  /** Migrations of the database compared with this program's; undefined if they are not readable. */
  migrations: MigrationsSeen | undefined;
}

export interface MigrationsSeen {
  /** Migrations of this program that the database lacks; all of them for a new database. */
  pending: readonly string[];
  /** Migrations of the database that this program does not have. */
  unknown: readonly string[];
  is_new: boolean;
}

/** Number of round trips to measure. Only the fastest counts, because this process runs other checks at the same time. */
const ROUND_TRIPS = 20;

const SEEN = `
  select current_user as "user", current_database() as database,
    current_setting('server_version_num')::int as version, current_setting('server_version') as version_name,
    current_setting('server_encoding') as encoding,
    json_build_object('fsync', current_setting('fsync'), 'synchronous_commit', current_setting('synchronous_commit'),
      'full_page_writes', current_setting('full_page_writes')) as durability,
    case when pg_is_in_recovery() then 'replica' when current_setting('transaction_read_only')::bool then 'settings' end as read_only,
    least(
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0),
      (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user),
      (select nullif(datconnlimit, -1) from pg_database where datname = current_database())) as connections_max,
    (select count(*)::int from pg_stat_activity where datname is not null and application_name not like 'roamfleet%') as connections_of_others,
    coalesce(has_schema_privilege(current_user, to_regnamespace('public'), 'CREATE'), false) as may_create,
    coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_encrypted`;

type SeenRow = Omit<DatabaseSeen, "read_only" | "may_serve_orgs" | "round_trip_ms" | "clock_ahead_ms" | "migrations"> & {
  read_only: "replica" | "settings" | null;
};

/**
 * Checks a database over a separate connection, without changing it. Rejects with the driver's error if the database is unreachable or
 * refuses the login. The caller limits the time with `signal`.
 */
export async function probeDatabase(
  connection: DbAddress,
  { clock, timeout_ms, signal }: { clock: Pick<Clock, "now" | "monotonic">; timeout_ms: number; signal: AbortSignal },
): Promise<DatabaseSeen> {
  const examine = async (client: pg.Client): Promise<DatabaseSeen> => {
    const [row] = (await client.query<SeenRow>(SEEN)).rows;
    if (row === undefined) throw new Error("the database returned no row");
    return {
      ...row,
      read_only: row.read_only ?? undefined,
      may_serve_orgs: await mayServeOrgs(client),
      ...(await measure(client, clock)),
      migrations: await readMigrations(client),
    };
  };
  const timeouts = { connectionTimeoutMillis: timeout_ms, query_timeout: timeout_ms };
  return await withClient(connection, examine, { ...timeouts, application_name: "roamfleet doctor", signal });
}

/** Switches to the role as a test. Membership is not enough: since PostgreSQL 16, a member may lack the right to switch. */
async function mayServeOrgs(client: pg.Client): Promise<boolean> {
  await client.query("begin read only");
  const may = await client.query("set local role pg_database_owner").then(
    () => true,
    () => false,
  );
  await client.query("rollback");
  return may;
}

async function measure(
  client: pg.Client,
  clock: Pick<Clock, "now" | "monotonic">,
): Promise<Pick<DatabaseSeen, "round_trip_ms" | "clock_ahead_ms">> {
  let best = { round_trip_ms: Infinity, clock_ahead_ms: 0 };
  for (let turn = 0; turn < ROUND_TRIPS; turn += 1) {
    const [at, since] = [clock.now().getTime(), clock.monotonic()];
    const { rows } = await client.query<{ ms: number }>("select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms");
    const round_trip_ms = clock.monotonic() - since;
    // Assumes that the server read its clock in the middle of the round trip.
    const clock_ahead_ms = (rows[0]?.ms ?? at) - at - round_trip_ms / 2;
    if (round_trip_ms < best.round_trip_ms) best = { round_trip_ms, clock_ahead_ms };
  }
  return best;
}

async function readMigrations(client: pg.Client): Promise<MigrationsSeen | undefined> {
  const known = await migrationsIn(MIGRATIONS_DIRECTORY);
  const [table] = (
    await client.query<{ present: boolean; readable: boolean | null }>(
      `select to_regclass('public.${MIGRATION_TABLE}') is not null as present,
        has_table_privilege(to_regclass('public.${MIGRATION_TABLE}'), 'select') as readable`,
    )
  ).rows;
  if (table?.present !== true) return { pending: [...known].toSorted(), unknown: [], is_new: true };
  if (table.readable !== true) return undefined;
  const { rows } = await client.query<{ name: string }>(`select name from public.${MIGRATION_TABLE} order by id`);
  const run = new Set(rows.map(({ name }) => name));
  return {
    pending: [...known].filter((name) => !run.has(name)).toSorted(),
    // If the only unknown migration is a compatible one of the next version, it is not reported.
    unknown: oneAhead([...run], known) === undefined ? [...run].filter((name) => !known.has(name)) : [],
    is_new: run.size === 0,
  };
}
