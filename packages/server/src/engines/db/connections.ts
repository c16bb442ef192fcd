import { DatabaseError, Pool, type PoolClient, type QueryResult } from "pg";
import type { Statement } from "../../kernel/sql.ts";
import type { EngineLog } from "../log.ts";
import { classify, isConnectionLost } from "./errors.ts";
import { valueParsers } from "./values.ts";

/** A PostgreSQL URL, or where it listens; `host` may be the directory of a unix socket. */
export type DbAddress = string | { host: string; port: number; user: string; database: string };

const POOL_SIZE = 10;
const SYSTEM_SHARE = 0.3;
const CONNECT_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 30_000;
/** The driver gives up on a silent server a little after the server would have given up on the statement. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000;
const IDLE_TRANSACTION_TIMEOUT_MS = 60_000;
const IDLE_CONNECTION_TIMEOUT_MS = 60_000;
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
/** Kept prepared on every connection. */
const SERVE_ORG = { name: "serve_org", text: "select set_config('app.org', $1, false)" };

/** The driver's query object of a statement. */
export const toQuery = (statement: Statement<unknown>) => {
  const { text, name } = statement;
  const values = statement.values as unknown[];
  return name === undefined ? { text, values } : { text, name, values };
};

interface OpenOptions {
  connection: DbAddress;
  pool_size?: number | undefined;
  log: EngineLog;
}

/** The connections of an engine: some see everybody's rows, the others those of the org that they serve. */
export class Connections {
  readonly #system: Pool;
  readonly #tenants: Pool;
  /** The org that a connection served last. Telling it again costs a round trip. */
  readonly #serves = new WeakMap<PoolClient, string>();

  private constructor(system: Pool, tenants: Pool) {
    this.#system = system;
    this.#tenants = tenants;
  }

  get waiting(): number {
    return this.#system.waitingCount + this.#tenants.waitingCount;
  }

  static async open(options: OpenOptions): Promise<Connections> {
    const size = options.pool_size ?? POOL_SIZE;
    const system_size = Math.max(1, Math.round(size * SYSTEM_SHARE));
    const system = openPool(options, system_size, SESSION_SETTINGS);
    const tenants = openPool(options, Math.max(1, size - system_size), `${SESSION_SETTINGS}; set role ${TENANT_ROLE}`);
    const connections = new Connections(system, tenants);
    try {
      await requireServer(system);
    } catch (error) {
      await connections.end();
      throw classify(error);
    }
    return connections;
  }

  /** A connection that sees the rows of `org_id`, or everybody's. */
  async borrow(org_id: string | undefined): Promise<PoolClient> {
    if (org_id === undefined) return await this.#system.connect();
    const client = await this.#tenants.connect();
    if (this.#serves.get(client) === org_id) return client;
    this.#serves.delete(client);
    try {
      await client.query({ ...SERVE_ORG, values: [org_id] });
    } catch (error) {
      client.release(true);
      throw error;
    }
    this.#serves.set(client, org_id);
    return client;
  }

  /** After an error nobody knows what the connection was last told: whoever gets it next tells it again. */
  giveBack(client: PoolClient, after: { failed: boolean; broken: boolean }): void {
    if (after.failed) this.#serves.delete(client);
    client.release(after.broken);
  }

  /** One statement outside a transaction. */
  async query(org_id: string | undefined, statement: Statement<unknown>): Promise<QueryResult> {
    const client = await this.borrow(org_id);
    try {
      const result = await client.query(toQuery(statement));
      this.giveBack(client, { failed: false, broken: false });
      return result;
    } catch (error) {
      this.giveBack(client, { failed: true, broken: !(error instanceof DatabaseError) || isConnectionLost(error) });
      throw error;
    }
  }

  async end(): Promise<void> {
    await Promise.all([this.#system.end(), this.#tenants.end()]);
  }
}

function openPool({ connection, log }: OpenOptions, max: number, settings: string): Pool {
  const pool = new Pool({
    ...(typeof connection === "string" ? { connectionString: connection } : connection),
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_CONNECTION_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: "robofleet",
    types: valueParsers,
    onConnect: (client) => client.query(settings) as unknown as void,
  });
  // Without a listener on each of them the server's "terminating connection" ends the whole process.
  // The pool ends without waiting for its sockets, so the database may go first when both are stopped.
  pool.on("error", (error) => {
    if (!pool.ending) log.warn({ err: error }, "an idle database connection broke");
  });
  pool.on("connect", (client: PoolClient) => {
    client.on("error", (error) => {
      if (!pool.ending) log.warn({ err: error }, "a database connection broke");
    });
  });
  return pool;
}

async function requireServer(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ version: number; name: string; user: string; database: string; may_serve: boolean }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_version') as name, current_user as "user", current_database() as database,
      pg_has_role(current_user, (select oid from pg_roles where rolname = '${TENANT_ROLE}'), 'member') as may_serve`,
  );
  const [server] = rows;
  if (server === undefined || server.version < SERVER_VERSION_MIN) {
    throw new Error(`PostgreSQL 15 or newer is needed; this one is ${server?.name ?? "unknown"}`);
  }
  if (!server.may_serve) {
    throw new Error(`the database user ${server.user} must own the database: alter database ${server.database} owner to ${server.user}`);
  }
}
