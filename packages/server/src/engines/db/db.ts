import type { Db } from "../../kernel/db.ts";

export type { Db };

/** A pool of connections to one database. */
export interface DbEngine extends Db {
  /** Waits for queries under way, then closes every connection. New ones are refused as a lost connection. */
  close(): Promise<void>;
  /** Whether the database answers within `timeout_ms`. Never rejects. */
  ready(timeout_ms: number): Promise<boolean>;
}
