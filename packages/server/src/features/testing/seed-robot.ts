import type { Plane } from "../../context.ts";
import { sql } from "../../kernel/sql.ts";

export interface Seeded {
  site_id: string;
  fleet_id: string;
  robot_id: string;
}

/** Inserts a robot with its site and fleet directly into the tables, without enrollment. */
export async function seedRobot(
  { db, clock, id }: Pick<Plane, "db" | "clock" | "id">,
  org_id: string,
  place: Partial<Omit<Seeded, "robot_id">> = {},
): Promise<Seeded> {
  const now = clock.now();
  const site_id = place.site_id ?? id("site");
  const fleet_id = place.fleet_id ?? id("fleet");
  const robot_id = id("rob");
  if (place.site_id === undefined)
    await db.run(
      sql`insert into site (org_id, id, name, created_at, updated_at) values (${org_id}, ${site_id}, ${site_id}, ${now}, ${now})`,
    );
  if (place.fleet_id === undefined)
    await db.run(
      sql`insert into fleet (org_id, id, site_id, name, created_at, updated_at) values (${org_id}, ${fleet_id}, ${site_id}, ${fleet_id}, ${now}, ${now})`,
    );
  await db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    values (${org_id}, ${robot_id}, ${robot_id}, ${site_id}, ${fleet_id}, ${Buffer.from(robot_id)}, ${now}, ${now})`);
  return { site_id, fleet_id, robot_id };
}
