import { type ClientConfig, DatabaseError, type QueryResult } from "pg";
import { sql, type Statement } from "../../kernel/sql.ts";
import type { EngineLog } from "../log.ts";
import type { Connection, Sent } from "./connection.ts";
import { ConnectionPool } from "./connection-pool.ts";
import { classify, isConnectionLost } from "./errors.ts";
import { valueParsers } from "./values.ts";

/** A PostgreSQL URL, or where it listens; `host` may be the directory of a unix socket. */
export type DbAddress = string | { host: string; port: number; user: string; database: string };

const POOL_SIZE = 10;
const SYSTEM_SHARE = 0.3;
/** Of the connections that serve orgs, what a single org uses at most. */
const ORG_SHARE = 0.6;
const STATEMENT_TIMEOUT_MS = 30_000;
/** We give up on a silent server a little after the server would have given up on the statement. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000;
const IDLE_TRANSACTION_TIMEOUT_MS = 60_000;
const SERVER_VERSION_MIN = 150_000;

/** Sent by query instead of as start-up parameters, which connection poolers refuse. */
const SESSION_SETTINGS = `
  set timezone to 'UTC';
  set statement_timeout to ${STATEMENT_TIMEOUT_MS};
  set idle_in_transaction_session_timeout to ${IDLE_TRANSACTION_TIMEOUT_MS}`;

/**
 * What connections that serve one org run as: row-level security lets it see the rows of `app.org`, while the owner of the
 * tables sees all. It is there in every database, and whoever owns the database may become it: nobody has to make a role.
 */
const TENANT_ROLE = "pg_database_owner";
const serveOrg = (org_id: string): Sent => ({ name: "serve_org", text: "select set_config('app.org', $1, false)", values: [org_id] });
const simple = (text: string): Sent => ({ text, name: undefined, values: [] });
const NOTHING: readonly Sent[] = [];

interface OpenOptions {
  connection: DbAddress;
  pool_size?: number | undefined;
  log: EngineLog;
}

/** The connections of an engine: some see everybody's rows, the others those of the org that they serve. */
export class Connections {
  readonly #system: ConnectionPool;
  readonly #tenants: ConnectionPool;

  private constructor(system: ConnectionPool, tenants: ConnectionPool) {
    this.#system = system;
    this.#tenants = tenants;
  }

  get waiting(): number {
    return this.#system.waiting + this.#tenants.waiting;
  }

  get in_use(): number {
    return this.#system.in_use + this.#tenants.in_use;
  }

  static async open(options: OpenOptions): Promise<Connections> {
    const size = options.pool_size ?? POOL_SIZE;
    const system_size = Math.max(1, Math.round(size * SYSTEM_SHARE));
    const system = openPool(options, system_size, SESSION_SETTINGS);
    const tenants = openPool(options, Math.max(1, size - system_size), `${SESSION_SETTINGS}; set role ${TENANT_ROLE}`);
    const connections = new Connections(system, tenants);
    try {
      await requireServer(connections);
    } catch (error) {
      connections.end();
      throw classify(error);
    }
    return connections;
  }

  /** A connection for work of `org_id`, or for everybody's; before its first statement goes what `readyFor` says. */
  borrow(org_id: string | undefined): Connection | Promise<Connection> {
    return (org_id === undefined ? this.#system : this.#tenants).borrow(org_id);
  }

  /** After an error nobody knows what the connection was last told: whoever gets it next tells it again. */
  giveBack(connection: Connection, org_id: string | undefined, after: { failed: boolean; broken: boolean }): void {
    if (after.failed) connection.serves = undefined;
    if (after.broken) connection.destroy();
    (org_id === undefined ? this.#system : this.#tenants).giveBack(connection, org_id);
  }

  /** One statement outside a transaction. */
  async query(org_id: string | undefined, statement: Statement<unknown>): Promise<QueryResult> {
    const borrowed = this.borrow(org_id);
    const connection = borrowed instanceof Promise ? await borrowed : borrowed;
    try {
      const result = await connection.ask([statement], readyFor(connection, org_id));
      this.giveBack(connection, org_id, { failed: false, broken: false });
      return result;
    } catch (error) {
      this.giveBack(connection, org_id, { failed: true, broken: !(error instanceof DatabaseError) || isConnectionLost(error) });
      throw error;
    }
  }

  end(): void {
    this.#system.end();
    this.#tenants.end();
  }
}

/**
 * What a connection is told before the first statement, in the same write: nothing while it serves the org already. Were it
 * refused, the statement would see what the org before may see: its answer is thrown away, and it names its own org besides.
 */
export function readyFor(connection: Connection, org_id: string | undefined): readonly Sent[] {
  if (org_id === undefined || connection.serves === org_id) return NOTHING;
  connection.serves = org_id;
  return [serveOrg(org_id)];
}

function openPool({ connection, log }: OpenOptions, max: number, settings: string): ConnectionPool {
  const config: ClientConfig = {
    ...(typeof connection === "string" ? { connectionString: connection } : connection),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: "roamfleet",
    types: valueParsers,
  };
  const max_per_org = Math.max(1, Math.round(max * ORG_SHARE));
  return new ConnectionPool({
    config,
    max,
    max_per_org,
    answer_timeout_ms: ANSWER_TIMEOUT_MS,
    prepare: (one) => one.ask([simple(settings)]),
    log,
  });
}

interface ServerRow {
  version: number;
  name: string;
  user: string;
  database: string;
  may_serve: boolean;
}

async function requireServer(connections: Connections): Promise<void> {
  const rows = (
    await connections.query(
      undefined,
      sql`select current_setting('server_version_num')::int as version, current_setting('server_version') as name, current_user as "user", current_database() as database,
      pg_has_role(current_user, (select oid from pg_roles where rolname = ${TENANT_ROLE}), 'member') as may_serve`,
    )
  ).rows as ServerRow[];
  const [server] = rows;
  if (server === undefined || server.version < SERVER_VERSION_MIN) {
    throw new Error(`PostgreSQL 15 or newer is needed; this one is ${server?.name ?? "unknown"}`);
  }
  if (!server.may_serve) {
    throw new Error(`the database user ${server.user} must own the database: alter database ${server.database} owner to ${server.user}`);
  }
}
