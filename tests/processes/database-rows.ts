import type { Connection } from "../../packages/server/src/engines/db/embedded/cluster.ts";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { listTables } from "../../packages/server/src/engines/db/tables.ts";

/**
 * Returns every row of every logged table, with every column as text, sorted, so that databases can be compared. Unlogged tables are
 * skipped: PostgreSQL truncates them during recovery.
 */
export async function rowsOf(where: Connection): Promise<Record<string, string[]>> {
  return withClient(where, async (client) => {
    await client.query("set timezone = 'UTC'; set extra_float_digits = 1");
    await client.query("begin isolation level repeatable read read only");
    const rows: Record<string, string[]> = {};
    for (const { name, kind } of await listTables(client)) {
      if (kind !== "r") continue;
      const { rows: unlogged } = await client.query("select 1 from pg_class where oid = $1::regclass and relpersistence = 'u'", [name]);
      if (unlogged.length > 0) continue;
      const found = await client.query<{ row: string }>(`select t::text as row from only ${name} t`);
      rows[name] = found.rows.map(({ row }) => row).toSorted();
    }
    return rows;
  });
}

/** Returns the rows of a database and stops it. */
export async function rowsOfAndStop(started: { connection: Connection; stop(): Promise<void> }): Promise<Record<string, string[]>> {
  try {
    return await rowsOf(started.connection);
  } finally {
    await started.stop();
  }
}
