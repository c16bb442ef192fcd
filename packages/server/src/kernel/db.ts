import type { Statement } from "./sql.ts";

/**
 * The database as stores see it: statements in, rows out. Works on the pool or inside a transaction. Rejects with PostgreSQL's error, or
 * with a lost connection if the outcome of a write is unknown.
 */
export interface Db {
  /** Returns all rows. */
  many<R>(statement: Statement<R>): Promise<R[]>;
  /** Returns exactly one row. Throws for any other number, which is an impossible state. */
  one<R>(statement: Statement<R>): Promise<R>;
  /** Returns one row or undefined. Throws if there are more. */
  maybe<R>(statement: Statement<R>): Promise<R | undefined>;
  /** Returns the number of affected rows. */
  run(statement: Statement<unknown>): Promise<number>;
  /**
   * Runs `work` in one transaction and commits when it resolves. `work` runs up to 5 times (serialization failure, deadlock), so it must do
   * nothing that the database cannot roll back. Inside a transaction it joins that one, and a throw rolls back all of it.
   */
  transaction<T>(work: (tx: Db) => Promise<T>): Promise<T>;
  /** Calls `effect` after a successful COMMIT, or immediately outside of a transaction. Use it for hints, not for state. */
  afterCommit(effect: () => void): void;
  /**
   * Sends the statement in one batch with COMMIT, which saves a round trip. Its error fails the transaction. Outside of a transaction it
   * runs immediately.
   */
  atCommit(statement: Statement<unknown>): Promise<void>;
}

/**
 * The database without row-level security, for queries before the org is known and for work across orgs. All other queries use `forOrg`.
 */
export interface SystemDb extends Db {
  /** The database restricted to one org: row-level security hides the rows of other orgs and refuses to write them. */
  forOrg(org_id: string): Db;
}

/** How the kernel classifies errors of the database driver. */
export interface DbErrors {
  isConnectionLost(error: unknown): boolean;
  isDiskFull(error: unknown): boolean;
  /** A statement exceeded its time limit and was cancelled. */
  isTimeout(error: unknown): boolean;
  /** One of the three above: the error is not caused by a row of the statement. */
  readonly isOutage: (error: unknown) => boolean;
  isUniqueViolation(error: unknown): boolean;
}
