import { type Connection, withClient } from "../../packages/server/src/engines/db/embedded/connect.ts";
import { listTables } from "../../packages/server/src/engines/db/tables.ts";

/**
 * Every row of every logged table, every column as text, sorted: equal for databases that hold the same. PostgreSQL empties an unlogged
 * table when it recovers, so its rows are in no copy of the files.
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

/** The rows of a stopped database, which is started to read them. */
export async function rowsOfAndStop(started: { connection: Connection; stop(): Promise<void> }): Promise<Record<string, string[]>> {
  try {
    return await rowsOf(started.connection);
  } finally {
    await started.stop();
  }
}
