import type { Db, SystemDb } from "../../kernel/db.ts";

export type { Db, SystemDb };

/** The connections to one database. */
export interface DbEngine extends SystemDb {
  /** Waits for running queries, then closes every connection. New queries fail as a lost connection. */
  close(): Promise<void>;
  /** Connections in use, and the number of waiting callers. */
  readonly load: { in_use: number; waiting: number };
  /** Returns whether the database responds within `timeout_ms`. Never rejects. */
  ready(timeout_ms: number): Promise<boolean>;
}
