import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { robotKey, type StoredRobot } from "../../packages/swarm/src/robot-file.ts";
import { ownDatabase, type ServerProcess } from "./server-process.ts";

/** The state directory of a swarm. Its robots are numbered from 1. */
export interface SwarmState {
  directory: string;
  robots: number;
  robot_ids: readonly string[];
}

/** Creates robots by SQL, and state directories for swarms of these sizes: enrolling thousands would take minutes. */
export async function insertRobots(
  server: ServerProcess,
  place: { org_id: string; site_id: string; fleet_id: string },
  sizes: readonly number[],
): Promise<SwarmState[]> {
  const states: SwarmState[] = [];
  await withClient(ownDatabase(server), async (client) => {
    for (const [swarm, size] of sizes.entries()) {
      const robots = Array.from({ length: size }, (_, i) => {
        const key = randomBytes(32);
        return { number: i + 1, robot_id: `rob_${randomBytes(13).toString("hex")}`, key, public_key: robotKey(key).public_key };
      });
      const robot_ids = robots.map(({ robot_id }) => robot_id);
      const parameters = [place.org_id, robot_ids, robots.map(({ public_key }) => public_key), place.site_id, place.fleet_id];
      await client.query(
        `with made as (
           insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
           select $1, r.id, r.id, $4, $5, decode(r.key, 'base64'), now(), now() from unnest($2::text[], $3::text[]) as r (id, key)
           returning org_id, id, public_key)
         insert into robot_key (public_key, org_id, robot_id, created_at) select public_key, org_id, id, now() from made`,
        parameters,
      );
      const directory = path.join(server.data, `swarm-${swarm}`);
      mkdirSync(directory);
      const lines = robots.map(({ number, robot_id, key }) => {
        const kept: StoredRobot = {
          number,
          key: key.toString("base64"),
          robot_id,
          org_id: place.org_id,
          name: robot_id,
          installs: 0,
          first: {},
          apps: {},
        };
        return `${JSON.stringify(kept)}\n`;
      });
      writeFileSync(path.join(directory, "robots.jsonl"), lines.join(""));
      states.push({ directory, robots: size, robot_ids });
    }
    // Autovacuum would do this within a minute after thousands of enrollments.
    await client.query("analyze");
  });
  return states;
}
