import pg from "pg";
import type { DbAddress } from "./connections.ts";

const CONNECT_TIMEOUT_MS = 10_000;

interface ClientOptions extends pg.ClientConfig {
  /** Called when the connection breaks. */
  onLost?: (error: Error) => void;
  /** Closes the connection when aborted, even during the connect. */
  signal?: AbortSignal;
}

/** Runs `use` with a separate connection that belongs to no pool, and closes it afterwards, even after an error. */
export async function withClient<T>(
  connection: DbAddress,
  use: (client: pg.Client) => Promise<T>,
  { onLost = () => {}, signal, ...config }: ClientOptions = {},
): Promise<T> {
  const address = typeof connection === "string" ? { connectionString: connection } : { ...connection, ssl: false };
  const client = new pg.Client({ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...config, ...address });
  // Without an `error` listener, a terminated connection (57P01) would crash the process. The running query rejects anyway.
  client.on("error", onLost);
  const cut = (): void => void client.end().catch(() => {});
  signal?.addEventListener("abort", cut, { once: true });
  try {
    await client.connect();
    return await use(client);
  } finally {
    signal?.removeEventListener("abort", cut);
    // For a migration this also releases its lock. Errors of a lost connection do not matter.
    await client.end().catch(() => {});
  }
}
