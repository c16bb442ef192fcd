import pg from "pg";

/** Where the database listens; accepted by pg's Client and Pool as it is. */
export interface Connection {
  /** Directory of the Unix socket. */
  host: string;
  port: number;
  user: string;
  database: string;
}

const CONNECT_TIMEOUT_MS = 10_000;

/** Runs `use` on a connection of its own and closes it whatever happens. */
export async function withClient<T>(connection: Connection, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...connection, ssl: false, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  // Without a listener a terminated connection (57P01) ends the whole process; the query in flight rejects by itself.
  client.on("error", () => {});
  try {
    await client.connect();
    return await use(client);
  } finally {
    await client.end().catch(() => {});
  }
}
