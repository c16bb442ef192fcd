import pg from "pg";
import { from as copyFrom } from "pg-copy-streams";
import { serveRuns } from "../listener.ts";

export interface CopyRuns {
  /** Statement that creates the table if it does not exist. */
  create: string;
  table: string;
  /** Options of COPY, in parentheses; empty: the text format. */
  options: string;
  /** Number of COPY statements of one run. */
  count: number;
  /** Returns what one COPY sends. */
  next: () => Buffer;
}

/** Serves `/run`, which copies into a table of the rig's database, one COPY after the other, and empties the table. */
export async function serveCopyRuns({ create, table, options, count, next }: CopyRuns): Promise<void> {
  const client = new pg.Client(JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>);
  await client.connect();
  await client.query(create);
  serveRuns(async () => {
    for (let i = 0; i < count; i += 1) {
      const bytes = next();
      const stream = client.query(copyFrom(`copy ${table} from stdin ${options}`));
      await new Promise<void>((resolve, reject) => {
        stream.on("finish", resolve).on("error", reject);
        stream.end(bytes);
      });
    }
    await client.query(`truncate ${table}`);
  });
}
