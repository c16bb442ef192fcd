import pg from "pg";

/** Where the database listens, in the form that pg's Client and Pool accept. */
export interface Connection {
  /** Directory of the Unix socket. */
  host: string;
  port: number;
  user: string;
  database: string;
}

const CONNECT_TIMEOUT_MS = 10_000;

/** Runs `use` with a new connection and closes it in any case. */
export async function withClient<T>(connection: Connection, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...connection, ssl: false, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  // Without a listener a terminated connection (57P01) ends the whole process. The running query rejects in any case.
  client.on("error", () => {});
  try {
    await client.connect();
    return await use(client);
  } finally {
    await client.end().catch(() => {});
  }
}
