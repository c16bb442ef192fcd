import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { LIMIT_DEFAULTS } from "../../config.ts";
import { connect, migrate, MIGRATIONS_DIRECTORY } from "../../engines/db/index.ts";
import { quietLog, scratch, startOn } from "../../engines/db/embedded/testing/scratch.ts";
import { createLog } from "../../kernel/log.ts";
import { createMetrics } from "../../kernel/metrics.ts";
import { sql } from "../../kernel/sql.ts";
import { startOperationSamples } from "./sample-operation.ts";

test("operation metrics count restarts of PostgreSQL and show the age of the oldest log", { timeout: 120_000 }, async () => {
  await using place = await scratch();
  const embedded = await startOn(place.database);
  await migrate(embedded.connection, { directory: MIGRATIONS_DIRECTORY, log: quietLog });
  const db = await connect({ connection: embedded.connection, pool_size: 4, clock: systemClock, log: quietLog });
  const clock = new SimulatedClock({ at: "2030-01-01T01:00:00Z" });
  const metrics = createMetrics();
  const settings = { data_directory: place.root, limits: LIMIT_DEFAULTS } as never;
  const samples = startOperationSamples({ db, clock, log: createLog({ level: "silent" }), metrics, settings });
  const valueOf = async (name: string): Promise<number> =>
    (await metrics.registry.getSingleMetric(name)?.get())?.values[0]?.value ?? Number.NaN;
  try {
    await until("the first sample", async () => (await valueOf("roamfleet_database_bytes")) > 0);
    assert.equal(await valueOf("roamfleet_database_restarts_total"), 0);
    const at = new Date("2030-01-01T00:00:00Z");
    await db.run(sql`insert into org (id, name, status, created_at, updated_at) values ('org_a', 'a', 'active', ${at}, ${at})`);
    await db.run(sql`insert into log_usage (org_id, period_at, bytes) values ('org_a', ${at}, 10)`);
    const { pid } = embedded;
    process.kill(pid, "SIGKILL");
    await until("PostgreSQL has restarted", () => embedded.pid !== pid && db.ready(1_000));
    await clock.advance({ minutes: 1 });
    await until("the restart is counted", async () => (await valueOf("roamfleet_database_restarts_total")) === 1);
    assert.equal(await valueOf("roamfleet_oldest_log_age_seconds"), 3_660);
    await clock.advance({ minutes: 1 });
    await until("a further sample", async () => (await valueOf("roamfleet_oldest_log_age_seconds")) === 3_720);
    assert.equal(await valueOf("roamfleet_database_restarts_total"), 1);
  } finally {
    await samples.stop();
    await db.close();
    await embedded.stop();
  }
});
