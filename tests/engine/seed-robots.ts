import type { Harness } from "../harness/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";

/** Inserts robots that never connected directly into the table, before or after the enrolled ones in the order of the fan-out. */
export async function seedRobots(
  { db, clock, default_org }: Harness,
  fleet_id: string,
  count: number,
  place: "before" | "after" = "after",
): Promise<void> {
  const now = clock.now();
  const prefix = place === "before" ? "rob_0" : "rob_z";
  await db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    select ${default_org.id}, ${prefix}::text || lpad(n::text, 25, '0'), 'seeded ' || n, f.site_id, f.id, decode(lpad(to_hex(n), 64, '0'), 'hex'), ${now}, ${now}
    from generate_series(1, ${count}::int) n, fleet f where f.org_id = ${default_org.id} and f.id = ${fleet_id}`);
}
