/**
 * The limit of health snapshots: JSON.parse of each, and one prepared upsert for each batch of robots. Snapshots are not checked, and an
 * older one replaces a newer one.
 */
import { Pool } from "pg";
import { serveRuns } from "../listener.ts";

const ROBOTS_PER_BATCH = 200;

const pool = new Pool({ ...(JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>), max: 1 });
const robots = Array.from({ length: Number(process.env.ROBOTS) }, (_, i) => `rbt_${String(i).padStart(26, "0")}`);
const received = Buffer.from(process.env.SNAPSHOT ?? "{}");

await pool.query("create table bench_health (robot_id text primary key, received_at timestamptz not null, snapshot jsonb not null)");

serveRuns(async () => {
  for (let i = 0; i < robots.length; i += ROBOTS_PER_BATCH) {
    const batch = robots.slice(i, i + ROBOTS_PER_BATCH);
    const snapshots = batch.map(() => JSON.stringify(JSON.parse(received.toString("utf8"))));
    await pool.query({
      name: "upsert",
      text: `insert into bench_health select robot_id, $3, snapshot::jsonb from unnest($1::text[], $2::text[]) as v (robot_id, snapshot)
        on conflict (robot_id) do update set received_at = excluded.received_at, snapshot = excluded.snapshot`,
      values: [batch, snapshots, new Date()],
    });
  }
});
