import type { Statement } from "./sql.ts";

/**
 * Runs statements on the connection pool or inside a transaction. A method rejects with PostgreSQL's error, or, if the connection is lost,
 * with an error that `isConnectionLost` accepts. After a lost connection, the outcome of a write is unknown: it may have been committed.
 */
export interface Db {
  /** Returns all rows. */
  many<R>(statement: Statement<R>): Promise<R[]>;
  /** Returns the only row. Throws if there are none or several. */
  one<R>(statement: Statement<R>): Promise<R>;
  /** Returns one row or undefined. Throws if there are several. */
  maybe<R>(statement: Statement<R>): Promise<R | undefined>;
  /** Returns the number of affected rows. */
  run(statement: Statement<unknown>): Promise<number>;
  /**
   * Runs `work` in one transaction and commits when it resolves. After a serialization failure or a deadlock, `work` is retried up to 5
   * times, so it must do nothing that the database cannot roll back. A nested call joins the outer transaction, and an error in the nested
   * call rolls back the outer transaction.
   */
  transaction<T>(work: (tx: Db) => Promise<T>): Promise<T>;
  /**
   * Calls `effect` after a successful COMMIT, or immediately outside of a transaction. `effect` is lost if the process crashes before it
   * runs, so use it for hints, not for state.
   */
  afterCommit(effect: () => void): void;
  /**
   * Sends the statement in one batch with COMMIT, which saves a round trip. If the statement fails, the transaction fails. Outside of a
   * transaction it runs immediately. `explain` returns the error to throw for the database's error, for example a 409 for a unique
   * violation; the database's error may be that of another statement of the batch.
   */
  atCommit(statement: Statement<unknown>, explain?: (error: unknown) => unknown): Promise<void>;
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
  /** Returns whether the error is one of the three above. No row of the statement is the cause of such an error. */
  readonly isOutage: (error: unknown) => boolean;
  isUniqueViolation(error: unknown): boolean;
}
