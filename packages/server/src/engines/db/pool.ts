import type { Activity, Clock } from "@robofleet/clock";
import { type ClientBase, Pool, type PoolClient, type QueryResult, type QueryResultRow } from "pg";
import type { Statement } from "../../kernel/sql.ts";
import type { EngineLog } from "../log.ts";
import { checkRows } from "./check-rows.ts";
import type { Db, DbEngine } from "./db.ts";
import { classify, ConnectionLost, isRetryable } from "./errors.ts";
import { TransactionPoints } from "./transaction-points.ts";
import { valueParsers } from "./values.ts";

/** A PostgreSQL URL, or where it listens; `host` may be the directory of a unix socket. */
export type DbAddress = string | { host: string; port: number; user: string; database: string };

export interface ConnectOptions {
  connection: DbAddress;
  /** Connections at most; 10 unless told. */
  pool_size?: number | undefined;
  clock: Clock;
  log: EngineLog;
  /** Compare every result with the row its statement declares: for tests. */
  check_rows?: boolean | undefined;
  /** Told of every query and transaction under way. */
  activity?: Activity | undefined;
}

const POOL_SIZE = 10;
/** Queries that may wait for a connection; more than this will not be served in time anyway. */
const POOL_WAITING_MAX = 10_000;
const CONNECT_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 30_000;
/** The driver gives up on a silent server a little after the server would have given up on the statement. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 5_000;
const IDLE_TRANSACTION_TIMEOUT_MS = 60_000;
const IDLE_CONNECTION_TIMEOUT_MS = 60_000;
const SERVER_VERSION_MIN = 150_000;
const TRANSACTION_RETRIES_MAX = 5;

/** Sent by query instead of as start-up parameters, which connection poolers refuse. */
const SESSION_SETTINGS = `
  set timezone to 'UTC';
  set statement_timeout to ${STATEMENT_TIMEOUT_MS};
  set idle_in_transaction_session_timeout to ${IDLE_TRANSACTION_TIMEOUT_MS}`;

type Send = (statement: Statement<unknown>) => Promise<QueryResult>;

/** The driver's query object of a statement. */
const toQuery = (statement: Statement<unknown>) => {
  const { text, name } = statement;
  const values = statement.values as unknown[];
  return name === undefined ? { text, values } : { text, name, values };
};

/** The four ways to read a result, over one way to send. */
function reading(send: Send, check_rows: boolean): Pick<Db, "many" | "one" | "maybe" | "run"> {
  async function rows<R>(statement: Statement<R>): Promise<R[]> {
    const result = await send(statement);
    if (check_rows && statement.row !== undefined) checkRows(statement.row, result.fields, result.rows, statement.text);
    return result.rows as QueryResultRow[] as R[];
  }
  return {
    many: rows,
    async one(statement) {
      const [first, ...more] = await rows(statement);
      if (first === undefined || more.length > 0) throw miscounted("exactly one row", first === undefined ? 0 : 1 + more.length, statement);
      return first;
    },
    async maybe(statement) {
      const [first, ...more] = await rows(statement);
      if (more.length > 0) throw miscounted("at most one row", 1 + more.length, statement);
      return first;
    },
    run: async (statement) => (await send(statement)).rowCount ?? 0,
  };
}

function miscounted(expected: string, count: number, statement: Statement<unknown>): Error {
  return new Error(`expected ${expected}, got ${count}: ${statement.text.replace(/\s+/g, " ").trim().slice(0, 200)}`);
}

/** One attempt at a transaction on one connection. */
class Transaction {
  readonly db: Db;
  readonly #client: ClientBase;
  readonly #effects: Array<() => void> = [];
  readonly #points = TransactionPoints.ofCaller();
  #open = true;
  /** The connection cannot be used again. */
  broken = false;
  /** The first error inside: PostgreSQL refuses everything after it, so nothing may pretend to go on. */
  #failure: { error: unknown } | undefined;

  constructor(client: ClientBase, check_rows: boolean) {
    this.#client = client;
    const send: Send = async (statement) => {
      if (!this.#open) throw new Error("the transaction has ended already");
      const done = this.#points?.statement();
      try {
        const result = await client.query(toQuery(statement));
        done?.();
        return result;
      } catch (error) {
        throw this.#fail(error);
      }
    };
    this.db = {
      ...reading(send, check_rows),
      transaction: async (work) => {
        try {
          return await work(this.db);
        } catch (error) {
          throw this.#fail(error);
        }
      },
      afterCommit: (effect) => void this.#effects.push(effect),
    };
  }

  #fail(error: unknown): unknown {
    const classified = classify(error);
    this.#failure ??= { error: classified };
    return classified;
  }

  /** Runs and commits; answers the effects that are due. */
  async perform<T>(work: (tx: Db) => Promise<T>): Promise<{ value: T; effects: ReadonlyArray<() => void> }> {
    await this.#command("begin");
    this.#points?.begun();
    try {
      const value = await work(this.db);
      this.#open = false;
      if (this.#failure !== undefined) throw this.#failure.error;
      this.#points?.beforeCommit();
      const { command } = await this.#command("commit");
      // PostgreSQL answers COMMIT of a failed transaction with success and the word ROLLBACK.
      if (command !== "COMMIT") throw new Error("the database rolled the transaction back");
      this.#points?.afterCommit();
      return { value, effects: this.#effects };
    } catch (error) {
      this.#open = false;
      // What went wrong first is the answer, also when the rollback fails: without its connection nothing is committed.
      await this.#command("rollback").catch(() => (this.broken = true));
      throw error;
    }
  }

  async #command(text: "begin" | "commit" | "rollback"): Promise<QueryResult> {
    try {
      return await this.#client.query(text);
    } catch (error) {
      throw classify(error);
    }
  }
}

class PgEngine implements DbEngine {
  readonly many: Db["many"];
  readonly one: Db["one"];
  readonly maybe: Db["maybe"];
  readonly run: Db["run"];
  readonly #pool: Pool;
  readonly #options: ConnectOptions;
  #under_way = 0;
  #closing: Promise<void> | undefined;
  #drained: (() => void) | undefined;

  constructor(pool: Pool, options: ConnectOptions) {
    this.#pool = pool;
    this.#options = options;
    const send: Send = async (statement) => {
      const done = TransactionPoints.lone(statement.text);
      const result = await this.#track(() => pool.query(toQuery(statement)));
      done?.();
      return result;
    };
    const reads = reading(send, options.check_rows === true);
    this.many = reads.many;
    this.one = reads.one;
    this.maybe = reads.maybe;
    this.run = reads.run;
  }

  async transaction<T>(work: (tx: Db) => Promise<T>): Promise<T> {
    return await this.#track(async () => {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await this.#attempt(work);
        } catch (error) {
          if (attempt === TRANSACTION_RETRIES_MAX || !isRetryable(error)) throw error;
          await pause(this.#options.clock.random() * 2 ** attempt);
        }
      }
    });
  }

  afterCommit(effect: () => void): void {
    this.#perform(effect);
  }

  async ready(timeout_ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = this.#options.clock.setTimer(timeout_ms, () => resolve(false));
    this.#track(() => this.#pool.query("select 1")).then(
      () => resolve(true),
      () => resolve(false),
    );
    try {
      return await promise;
    } finally {
      timer.cancel();
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // The pool would leave those waiting for a connection waiting.
    if (this.#under_way > 0) await new Promise<void>((resolve) => (this.#drained = resolve));
    await this.#pool.end();
  }

  async #attempt<T>(work: (tx: Db) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    const transaction = new Transaction(client, this.#options.check_rows === true);
    try {
      const { value, effects } = await transaction.perform(work);
      for (const effect of effects) this.#perform(effect);
      return value;
    } finally {
      client.release(transaction.broken);
    }
  }

  /** An effect is a hint: its failure concerns the log, not the transaction that is already durable. */
  #perform(effect: () => void): void {
    try {
      effect();
    } catch (error) {
      this.#options.log.error({ err: error }, "an effect after commit failed");
    }
  }

  async #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw new ConnectionLost("the database connections are being closed");
    if (this.#pool.waitingCount >= POOL_WAITING_MAX) throw new ConnectionLost("too many queries wait for a database connection");
    const end = this.#options.activity?.begin();
    this.#under_way += 1;
    try {
      return await work();
    } catch (error) {
      throw classify(error);
    } finally {
      this.#under_way -= 1;
      end?.();
      if (this.#under_way === 0) this.#drained?.();
    }
  }
}

/** Waits some turns of the event loop. Not the clock: contention is real also where a test holds time still. */
async function pause(weight: number): Promise<void> {
  for (let turns = 1 + Math.floor(weight * 8); turns > 0; turns -= 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Opens the pool. Rejects when the database cannot be reached, refuses us, or is older than PostgreSQL 15. */
export async function connect(options: ConnectOptions): Promise<DbEngine> {
  const { connection, log } = options;
  const pool = new Pool({
    ...(typeof connection === "string" ? { connectionString: connection } : connection),
    max: options.pool_size ?? POOL_SIZE,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_CONNECTION_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: "robofleet",
    types: valueParsers,
    onConnect: (client) => client.query(SESSION_SETTINGS) as unknown as void,
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
  try {
    await requireVersion(pool);
  } catch (error) {
    await pool.end();
    throw classify(error);
  }
  return new PgEngine(pool, options);
}

async function requireVersion(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ version: number; name: string }>(
    "select current_setting('server_version_num')::int as version, current_setting('server_version') as name",
  );
  const [server] = rows;
  if (server === undefined || server.version < SERVER_VERSION_MIN) {
    throw new Error(`PostgreSQL 15 or newer is needed; this one is ${server?.name ?? "unknown"}`);
  }
}
