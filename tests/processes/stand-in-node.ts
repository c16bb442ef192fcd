import pg from "pg";

const BEAT_EVERY_MS = 1_000;

/**
 * A node in the database that lives until it is stopped, with connected robots that never respond. Keeps no process
 * from ending, and is quiet when the database ends before it.
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
  // Its types do not know it.
  (client as unknown as { unref(): void }).unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await client.end().catch(() => {});
    },
  };
}
