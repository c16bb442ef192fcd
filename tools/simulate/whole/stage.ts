import { systemClock } from "@roamfleet/clock";
import { connect } from "../../../packages/server/src/engines/db/index.ts";
import { command, silentLog, startTestServer, TEMPLATE } from "../../../packages/server/src/engines/db/testing/test-server.ts";
import type { Plant } from "../server.ts";
import type { ScheduleOptions } from "../schedule.ts";
import { WholeServer } from "./whole-server.ts";

/** Schedules of a lane between two vacuums, which remove the rows of ended schedules. The test server has no autovacuum. */
const SCHEDULES_PER_VACUUM = 100;

/** The environment in which schedules run. */
export interface Stage {
  /** Returns the server of a lane, which runs its schedules one after the other. */
  server: (lane: number) => ScheduleOptions["server"];
  /** Called after each schedule of a lane. */
  tidy(lane: number): Promise<void>;
  end(): Promise<void>;
}

/** A temporary PostgreSQL with a database for each concurrent schedule; each schedule has a separate org. */
export async function wholeStage(plant: Plant | undefined, lanes: number): Promise<Stage> {
  const { server, stop } = await startTestServer();
  const databases = await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      const database = `lane_${lane}`;
      await command(server, `create database ${database} template ${TEMPLATE}`);
      return await connect({ connection: { ...server, database }, clock: systemClock, log: silentLog, pool_size: 4 });
    }),
  );
  const ended = databases.map(() => 0);
  return {
    tidy: async (lane) => {
      const count = (ended[lane] ?? 0) + 1;
      ended[lane] = count;
      if (count % SCHEDULES_PER_VACUUM === 0) await command(server, "vacuum", `lane_${lane}`);
    },
    server: (lane) => (clock, chance) => new WholeServer(databases[lane] as (typeof databases)[number], clock, chance, plant),
    end: async () => {
      await Promise.all(databases.map((db) => db.close()));
      await stop();
    },
  };
}
