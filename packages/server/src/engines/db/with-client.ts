import pg from "pg";
import type { DbAddress } from "./connections.ts";

const CONNECT_TIMEOUT_MS = 10_000;

interface ClientOptions extends pg.ClientConfig {
  /** Called when the connection breaks. */
  onLost?: (error: Error) => void;
  /** When aborted, closes the connection, even if it is still being established. */
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
  // If the connection is terminated (57P01) and there is no `error` listener, the process crashes. The running query rejects anyway.
  client.on("error", onLost);
  const cut = (): void => void client.end().catch(() => {});
  signal?.addEventListener("abort", cut, { once: true });
  try {
    await client.connect();
    return await use(client);
  } finally {
    signal?.removeEventListener("abort", cut);
    // For a migration, this also releases its lock. Errors are ignored, because the connection may already be lost.
    await client.end().catch(() => {});
  }
}
