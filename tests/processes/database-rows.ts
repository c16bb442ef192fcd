import pg from "pg";
import { listTables } from "../../packages/server/src/engines/db/tables.ts";

/** A PostgreSQL, as pg takes it. */
export interface Where {
  host: string;
  port: number;
  user: string;
  database: string;
}

/** Every row of every table, every column as text, sorted: equal for databases that hold the same. */
export async function rowsOf(where: Where): Promise<Record<string, string[]>> {
  return withClient(where, async (client) => {
    await client.query("set timezone = 'UTC'; set extra_float_digits = 1");
    await client.query("begin isolation level repeatable read read only");
    const rows: Record<string, string[]> = {};
    for (const { name, kind } of await listTables(client)) {
      if (kind !== "r") continue;
      const found = await client.query<{ row: string }>(`select t::text as row from only ${name} t`);
      rows[name] = found.rows.map(({ row }) => row).toSorted();
    }
    return rows;
  });
}

/** The rows of a database that somebody started for this, which is stopped. */
export async function rowsOfAndStop(started: { connection: Where; stop(): Promise<void> }): Promise<Record<string, string[]>> {
  try {
    return await rowsOf(started.connection);
  } finally {
    await started.stop();
  }
}

export async function withClient<T>(where: Where, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...where });
  client.on("error", () => {});
  try {
    await client.connect();
    return await use(client);
  } finally {
    await client.end().catch(() => {});
  }
}
