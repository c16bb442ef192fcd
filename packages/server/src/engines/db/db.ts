import type { Db, SystemDb } from "../../kernel/db.ts";

export type { Db, SystemDb };

/** The connections to one database. */
export interface DbEngine extends SystemDb {
  /** Waits for queries under way, then closes every connection. New ones are refused as a lost connection. */
  close(): Promise<void>;
  /** Connections that run something, and what waits for one. */
  readonly load: { in_use: number; waiting: number };
  /** Whether the database answers within `timeout_ms`. Never rejects. */
  ready(timeout_ms: number): Promise<boolean>;
}
