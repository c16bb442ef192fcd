import { type ClientConfig, DatabaseError, type QueryResult } from "pg";
import { sql, type Statement } from "../../kernel/sql.ts";
import type { EngineLog } from "../log.ts";
import { type Connection, ConnectionPool, type Sent } from "./connection-pool.ts";
import { classify, isConnectionLost } from "./errors.ts";
import { valueParsers } from "./values.ts";

/** A PostgreSQL URL, or a host and port. `host` may be the directory of a Unix socket. */
export type DbAddress = string | { host: string; port: number; user: string; database: string };

const POOL_SIZE = 10;
const SYSTEM_SHARE = 0.3;
/** Share of the org connections that a single org may use. */
const ORG_SHARE = 0.6;
const STATEMENT_TIMEOUT_MS = 30_000;
/** Timeout of a response. It exceeds the database's statement timeout, so it expires only if the database does not respond at all. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000;
const IDLE_TRANSACTION_TIMEOUT_MS = 60_000;
const SERVER_VERSION_MIN = 150_000;

/** Session settings. They are sent as a query after connecting, because poolers such as PgBouncer refuse them as startup parameters. */
const SESSION_SETTINGS = `
  set timezone to 'UTC';
  set statement_timeout to ${STATEMENT_TIMEOUT_MS};
  set idle_in_transaction_session_timeout to ${IDLE_TRANSACTION_TIMEOUT_MS}`;

/**
 * PostgreSQL role of connections that serve one org. Row-level security restricts this role to the rows of the org in setting `app.org`;
 * it does not apply to the owner of the tables. The role is built in, and the database owner is a member, so no role needs to be created.
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

/** The two pools of a database: system connections can access all rows, org connections only the rows of one org. */
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

  /** Borrows a connection for `org_id`, or a system connection if it is undefined. Send the statements of `readyFor` before all others. */
  borrow(org_id: string | undefined): Connection | Promise<Connection> {
    return (org_id === undefined ? this.#system : this.#tenants).borrow(org_id);
  }

  /** Releases a connection. If its work failed, the session's org is unknown, so the next use sets it again. Closes a broken connection. */
  release(connection: Connection, org_id: string | undefined, after: { failed: boolean; broken: boolean }): void {
    if (after.failed) connection.serves = undefined;
    if (after.broken) connection.destroy();
    (org_id === undefined ? this.#system : this.#tenants).release(connection, org_id);
  }

  /** Runs one statement outside a transaction. */
  async query(org_id: string | undefined, statement: Statement<unknown>): Promise<QueryResult> {
    const borrowed = this.borrow(org_id);
    const connection = borrowed instanceof Promise ? await borrowed : borrowed;
    try {
      const result = await connection.ask([statement], readyFor(connection, org_id));
      this.release(connection, org_id, { failed: false, broken: false });
      return result;
    } catch (error) {
      this.release(connection, org_id, { failed: true, broken: !(error instanceof DatabaseError) || isConnectionLost(error) });
      throw error;
    }
  }

  end(): void {
    this.#system.end();
    this.#tenants.end();
  }
}

/**
 * Returns the statements that set a connection's org; none if it is set already. Send them in one write with the caller's first statement.
 * If setting the org fails, the caller's statement still runs, with access to the previous org. This is safe: the result is discarded, and
 * the statement names the caller's org too.
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
