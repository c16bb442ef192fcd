import pg from "pg";

const BEAT_EVERY_MS = 1_000;

/**
 * Adds a live node to the database, for connected robots that never respond. The node is live until it is disposed. It does not keep this
 * process running, and ignores errors when the database stops first.
 */
export async function standInNode(connection: pg.ClientConfig, id: string): Promise<AsyncDisposable> {
  const client = new pg.Client(connection);
  client.on("error", () => clearInterval(timer));
  await client.connect();
  const beat = async (): Promise<void> => {
    await client.query(
      `insert into node (id, epoch, beat, is_over, started_at) values ($1, 1, 1, false, now())
       on conflict (id) do update set beat = node.beat + 1, is_over = false`,
      [id],
    );
  };
  await beat();
  const timer = setInterval(() => void beat().catch(() => {}), BEAT_EVERY_MS).unref();
  // The type declarations lack this method.
  (client as unknown as { unref(): void }).unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await client.end().catch(() => {});
    },
  };
}
