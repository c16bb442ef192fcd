import { systemClock } from "@robofleet/clock";
import { connect } from "../../../packages/server/src/engines/db/index.ts";
import { command, silentLog, startTestServer, TEMPLATE } from "../../../packages/server/src/engines/db/testing/test-server.ts";
import type { Plant } from "../server.ts";
import type { Stage } from "../simulate.ts";
import { WholeServer } from "./whole-server.ts";

/** A PostgreSQL that keeps nothing, with a database for each schedule that runs at a time; each schedule has an org of its own. */
export async function wholeStage(plant: Plant | undefined, lanes: number): Promise<Stage> {
  const { server, stop } = await startTestServer();
  const databases = await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      const database = `lane_${lane}`;
      await command(server, `create database ${database} template ${TEMPLATE}`);
      return await connect({ connection: { ...server, database }, clock: systemClock, log: silentLog, pool_size: 4 });
    }),
  );
  return {
    server: (lane) => (clock, chance) => new WholeServer(databases[lane] as (typeof databases)[number], clock, chance, plant),
    end: async () => {
      await Promise.all(databases.map((db) => db.close()));
      await stop();
    },
  };
}
