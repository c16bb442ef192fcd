import type { Statement } from "./sql.ts";

/**
 * The database as stores see it: statements in, rows out. Works on the pool or inside a transaction.
 * Rejects with what PostgreSQL said, or with a lost connection when the outcome of a write is unknown.
 */
export interface Db {
  /** All rows. */
  many<R>(statement: Statement<R>): Promise<R[]>;
  /** Exactly one row; any other number is an impossible state and throws. */
  one<R>(statement: Statement<R>): Promise<R>;
  /** One row or none; more throw. */
  maybe<R>(statement: Statement<R>): Promise<R | undefined>;
  /** The number of rows affected. */
  run(statement: Statement<unknown>): Promise<number>;
  /**
   * Runs `work` in one transaction and commits when it resolves. `work` may run again (serialization
   * failure, deadlock: up to 5 times), so it does nothing that the database cannot undo. Inside a
   * transaction it joins that one, and a throw dooms the whole.
   */
  transaction<T>(work: (tx: Db) => Promise<T>): Promise<T>;
  /** Calls `effect` after COMMIT succeeded, never when it did not; outside a transaction at once. For hints, not for state. */
  afterCommit(effect: () => void): void;
  /**
   * The transaction's last words: sent together with COMMIT instead of a round trip of their own, and their error fails it.
   * Outside a transaction at once.
   */
  atCommit(statement: Statement<unknown>): Promise<void>;
}

/**
 * The database without row-level security, for what is looked up before an org is known and for work across orgs. Everything
 * else is done by `forOrg`.
 */
export interface SystemDb extends Db {
  /** The same database as one org sees it: PostgreSQL hides every other org's rows and refuses to write them. */
  forOrg(org_id: string): Db;
}

/** What the kernel must know of the errors of a database driver. */
export interface DbErrors {
  isConnectionLost(error: unknown): boolean;
  isDiskFull(error: unknown): boolean;
  /** A statement ran for too long and was cancelled. */
  isTimeout(error: unknown): boolean;
  /** Any of the three above: no row of the statement is to blame. */
  readonly isOutage: (error: unknown) => boolean;
  isUniqueViolation(error: unknown): boolean;
}
