import { type Activity, type Clock, within } from "@roamfleet/clock";
import type { FieldDef, QueryResult, QueryResultRow } from "pg";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { type ColumnKind, type RowShape, sql, type Statement } from "../../kernel/sql.ts";
import type { EngineLog } from "../log.ts";
import type { Connection, Sent } from "./connection-pool.ts";
import { Connections, type DbAddress, readyFor } from "./connections.ts";
import { classify, ConnectionLost, isRetryable } from "./errors.ts";
import { TransactionPoints } from "./transaction-points.ts";
import { OID } from "./values.ts";

export type { Db, SystemDb };

/** The connections to one database. */
export interface DbEngine extends SystemDb {
  /** Waits for running queries, then closes all connections. New queries reject with ConnectionLost. */
  close(): Promise<void>;
  /** Number of connections in use, and of callers that wait for a connection. */
  readonly load: { in_use: number; waiting: number };
  /** Returns whether the database responds within `timeout_ms`. Never rejects. */
  ready(timeout_ms: number): Promise<boolean>;
}

const OIDS: Record<ColumnKind, readonly number[]> = {
  text: [OID.text, OID.varchar, OID.name, OID.uuid],
  int: [OID.int4, OID.int2],
  bigint: [OID.int8],
  float: [OID.float8, OID.float4],
  bool: [OID.bool],
  timestamptz: [OID.timestamptz],
  bytea: [OID.bytea],
  jsonb: [OID.jsonb, OID.json],
};

/**
 * Compares the column names, types and nulls of a result with the row shape that its statement declares. Throws on the first difference.
 * Runs only in tests, for every statement.
 */
function checkRows(shape: RowShape, fields: readonly FieldDef[], rows: readonly unknown[], text: string): void {
  const problem = findProblem(shape, fields, rows);
  if (problem !== undefined) throw new Error(`${problem}, in: ${text.replace(/\s+/g, " ").trim().slice(0, 200)}`);
}

function findProblem(shape: RowShape, fields: readonly FieldDef[], rows: readonly unknown[]): string | undefined {
  const seen = new Set<string>();
  for (const field of fields) {
    const column = shape.columns[field.name];
    if (column === undefined) return `column ${field.name} is not declared in the row`;
    if (seen.has(field.name)) return `column ${field.name} occurs twice`;
    seen.add(field.name);
    if (!OIDS[column.kind].includes(field.dataTypeID))
      return `column ${field.name} is declared ${column.kind} but has type ${field.dataTypeID}`;
  }
  for (const [name, column] of Object.entries(shape.columns)) {
    if (!seen.has(name)) return `column ${name} is declared but not in the result`;
    if (!column.nullable && rows.some((row) => (row as Record<string, unknown>)[name] === null))
      return `column ${name} is null but not declared nullable`;
  }
  return undefined;
}

export interface ConnectOptions {
  connection: DbAddress;
  /** Maximum connections (default 10). 30% are for work across orgs, so that this work and that of single orgs do not block each other. */
  pool_size?: number | undefined;
  clock: Clock;
  log: EngineLog;
  /** Whether to compare every result with the row that its statement declares. For tests. */
  check_rows?: boolean | undefined;
  /** Counts running queries and transactions as pending work. */
  activity?: Activity | undefined;
}

/** Maximum queries waiting for a connection. Further queries are rejected immediately, because they would time out anyway. */
const POOL_WAITING_MAX = 50_000;
const TRANSACTION_RETRIES_MAX = 5;

const ALIVE = sql`select 1`;

type Send = (statement: Statement<unknown>) => Promise<QueryResult>;

/** Returns the four query methods, which differ in the expected number of rows. All use `send` to send statements. */
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

const command = (text: string): Sent => ({ text, name: undefined, values: [] });
const [BEGIN, COMMIT, ROLLBACK] = [command("begin"), command("commit"), command("rollback")];

/**
 * One attempt to run a transaction on one connection. BEGIN is sent in one write with the first statement. The `atCommit` statements are
 * sent in one write with COMMIT.
 */
class Transaction {
  readonly db: Db;
  readonly #connection: Connection;
  readonly #effects: Array<() => void> = [];
  readonly #last: Statement<unknown>[] = [];
  readonly #explain: Array<(error: unknown) => unknown> = [];
  readonly #points = TransactionPoints.ofCaller();
  /** Statements to send before the transaction's first statement (set the org, BEGIN); undefined when they have been sent. */
  #preface: readonly Sent[] | undefined;
  #open = true;
  /** True if the connection must be closed instead of reused. */
  broken = false;
  /** The first error. Later statements fail with this error without being sent, because PostgreSQL would refuse them. */
  #failure: { error: unknown } | undefined;

  constructor(connection: Connection, org_id: string | undefined, check_rows: boolean) {
    this.#connection = connection;
    this.#preface = [...readyFor(connection, org_id), BEGIN];
    const send: Send = async (statement) => {
      this.#requireOpen();
      try {
        return await this.#send(statement);
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
          // The work may have replaced the database's error by its own, for example a unique violation by a 409.
          this.#fail(error);
          throw classify(error);
        }
      },
      afterCommit: (effect) => void this.#effects.push(effect),
      atCommit: async (statement, explain) => {
        this.#requireOpen();
        this.#last.push(statement);
        if (explain !== undefined) this.#explain.push(explain);
      },
    };
  }

  #requireOpen(): void {
    if (!this.#open) throw new Error("the transaction has ended already");
  }

  #fail(error: unknown): unknown {
    this.#failure ??= { error: classify(error) };
    return this.#failure.error;
  }

  async #send(statement: Statement<unknown>): Promise<QueryResult> {
    if (this.#preface !== undefined) this.#points?.begun();
    const done = this.#points?.statement();
    const result = await this.#connection.ask([statement], this.#begin());
    done?.();
    return result;
  }

  #begin(): readonly Sent[] | undefined {
    const preface = this.#preface;
    this.#preface = undefined;
    return preface;
  }

  /** Runs the work and commits. Returns its value and the `afterCommit` effects, which the caller runs. */
  async perform<T>(work: (tx: Db) => Promise<T>): Promise<{ value: T; effects: ReadonlyArray<() => void> }> {
    try {
      const value = await work(this.db);
      this.#open = false;
      if (this.#failure !== undefined) throw this.#failure.error;
      if (this.#preface === undefined || this.#last.length > 0) await this.#commit();
      return { value, effects: this.#effects };
    } catch (error) {
      this.#open = false;
      // If the rollback fails, the connection is closed, which also rolls back. The original error is thrown in both cases.
      if (this.#preface === undefined) await this.#connection.ask([ROLLBACK]).catch(() => (this.broken = true));
      throw error;
    }
  }

  async #commit(): Promise<void> {
    this.#points?.beforeCommit();
    // COMMIT can be sent without waiting for the statements: if one of them fails, PostgreSQL rolls back instead.
    const { command } = await this.#connection.ask([...this.#last, COMMIT], this.#begin()).catch((error: unknown) => {
      throw this.#explain.reduce((known, explain) => explain(known), classify(error));
    });
    // COMMIT of a failed transaction reports no error. Only the command tag ROLLBACK shows it.
    if (command !== "COMMIT") throw new Error("the database rolled the transaction back");
    this.#points?.afterCommit();
  }
}

class PgEngine {
  readonly #connections: Connections;
  readonly #options: ConnectOptions;
  #under_way = 0;
  #closing: Promise<void> | undefined;
  #drained: (() => void) | undefined;

  constructor(connections: Connections, options: ConnectOptions) {
    this.#connections = connections;
    this.#options = options;
  }

  /** Returns the database restricted to the rows of one org, or with all rows if `org_id` is undefined. */
  of(org_id: string | undefined): Db {
    const send: Send = async (statement) => {
      const done = TransactionPoints.lone(statement.text);
      const result = await this.#track(() => this.#connections.query(org_id, statement));
      done?.();
      return result;
    };
    return {
      ...reading(send, this.#options.check_rows === true),
      transaction: (work) => this.#transaction(org_id, work),
      afterCommit: (effect) => this.#perform(effect),
      atCommit: async (statement, explain) => {
        await send(statement).catch((error: unknown) => {
          throw explain === undefined ? error : explain(error);
        });
      },
    };
  }

  async #transaction<T>(org_id: string | undefined, work: (tx: Db) => Promise<T>): Promise<T> {
    return await this.#track(async () => {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await this.#attempt(org_id, work);
        } catch (error) {
          if (attempt === TRANSACTION_RETRIES_MAX || !isRetryable(error)) throw error;
          await pause(this.#options.clock.random() * 2 ** attempt);
        }
      }
    });
  }

  async ready(timeout_ms: number): Promise<boolean> {
    const answered = this.#track(() => this.#connections.query(undefined, ALIVE)).then(
      () => true,
      () => false,
    );
    return (await within(this.#options.clock, timeout_ms, answered)) ?? false;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // Waits for running and queued work. Otherwise, callers that wait for a connection would never get one.
    if (this.#under_way > 0) await new Promise<void>((resolve) => (this.#drained = resolve));
    this.#connections.end();
  }

  async #attempt<T>(org_id: string | undefined, work: (tx: Db) => Promise<T>): Promise<T> {
    const connection = await this.#connections.borrow(org_id);
    const transaction = new Transaction(connection, org_id, this.#options.check_rows === true);
    let failed = true;
    try {
      const { value, effects } = await transaction.perform(work);
      failed = false;
      for (const effect of effects) this.#perform(effect);
      return value;
    } finally {
      this.#connections.release(connection, org_id, { failed, broken: transaction.broken });
    }
  }

  /** Runs an effect and logs its failure. The transaction is already committed, and effects are only hints. */
  #perform(effect: () => void): void {
    try {
      effect();
    } catch (error) {
      this.#options.log.error({ err: error }, "an effect after commit failed");
    }
  }

  async #track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw new ConnectionLost("the database connections are being closed");
    if (this.#connections.waiting >= POOL_WAITING_MAX) throw new ConnectionLost("too many queries are waiting for a database connection");
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

/** Waits a few iterations of the event loop before a retry. Uses no timer, because a test may stop the simulated clock. */
async function pause(weight: number): Promise<void> {
  for (let turns = 1 + Math.floor(weight * 8); turns > 0; turns -= 1) await new Promise((resolve) => setImmediate(resolve));
}

/**
 * Opens the connections. Rejects if the database is unreachable, refuses the login, is older than PostgreSQL 15, or does not belong to the
 * login's user.
 */
export async function connect(options: ConnectOptions): Promise<DbEngine> {
  const connections = await Connections.open(options);
  const engine = new PgEngine(connections, options);
  return {
    ...engine.of(undefined),
    forOrg: (org_id) => {
      if (org_id === "") throw new Error("no org has an empty id");
      return engine.of(org_id);
    },
    get load() {
      return { in_use: connections.in_use, waiting: connections.waiting };
    },
    ready: (timeout_ms) => engine.ready(timeout_ms),
    close: () => engine.close(),
  };
}
