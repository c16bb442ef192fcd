import type { Clock } from "@roamfleet/clock";
import pg from "pg";
import type { DbAddress } from "./connections.ts";
import { MIGRATION_TABLE, MIGRATIONS_DIRECTORY, migrationsIn, oneAhead } from "./migrate.ts";

/** What one look at a database found. */
export interface DatabaseSeen {
  user: string;
  database: string;
  /** As numbers compare: 150004 for 15.4. */
  version: number;
  version_name: string;
  encoding: string;
  /** fsync, synchronous_commit and full_page_writes, as PostgreSQL spells them. */
  durability: Readonly<Record<string, string>>;
  /** A standby, or a session that may not write. */
  read_only: "replica" | "settings" | undefined;
  /** What is left for plain roles of max_connections, or of the narrower limit of role or database. */
  connections_max: number;
  /** Of them, those that others than Roamfleet hold now. */
  connections_of_others: number;
  /** May make tables in the schema public. */
  may_create: boolean;
  /** May become the role that row-level security is for. */
  may_serve_orgs: boolean;
  is_encrypted: boolean;
  /** Quickest of a few. */
  round_trip_ms: number;
  /** The database's clock minus ours; exact to half a round trip. */
  clock_ahead_ms: number;
  /** Undefined: we may not read them. */
  migrations: MigrationsSeen | undefined;
}

export interface MigrationsSeen {
  /** Names that this program has and the database has not; those of a database without any: all. */
  pending: readonly string[];
  /** Names that the database has and this program does not know. */
  unknown: readonly string[];
  is_new: boolean;
}

/** The quickest counts: this process loads and asks other things meanwhile. */
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
 * Looks at a database over one connection of its own, and changes nothing in it. Rejects with the driver's error when it cannot be
 * reached or refuses us; the caller bounds the whole by `signal`.
 */
export async function probeDatabase(
  connection: DbAddress,
  { clock, timeout_ms, signal }: { clock: Pick<Clock, "now" | "monotonic">; timeout_ms: number; signal: AbortSignal },
): Promise<DatabaseSeen> {
  const client = new pg.Client({
    ...(typeof connection === "string" ? { connectionString: connection } : connection),
    connectionTimeoutMillis: timeout_ms,
    query_timeout: timeout_ms,
    application_name: "roamfleet doctor",
  });
  // What broke is told by the query under way.
  client.on("error", () => {});
  const cut = (): void => void client.end().catch(() => {});
  signal.addEventListener("abort", cut, { once: true });
  try {
    await client.connect();
    const [row] = (await client.query<SeenRow>(SEEN)).rows;
    if (row === undefined) throw new Error("the database answered nothing");
    return {
      ...row,
      read_only: row.read_only ?? undefined,
      may_serve_orgs: await mayServeOrgs(client),
      ...(await measure(client, clock)),
      migrations: await readMigrations(client),
    };
  } finally {
    signal.removeEventListener("abort", cut);
    await client.end().catch(() => {});
  }
}

/** By doing it: since PostgreSQL 16 a member of a role need not be allowed to become it. */
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
    // Its answer was made half a round trip after we asked, as well as anybody can tell.
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
    // One that the next version brought suits this one too.
    unknown: oneAhead([...run], known) === undefined ? [...run].filter((name) => !known.has(name)) : [],
    is_new: run.size === 0,
  };
}
