import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { root } from "../../bin/launch.mjs";
import { startTestServer, TEST_SERVER_VARIABLE } from "../../packages/server/src/engines/db/testing/test-server.ts";

/** tools/test.ts sets it when a test of the dashboard is among those that run. */
const BUILD_VARIABLE = "ROAMFLEET_TEST_DASHBOARD";

let stop: (() => Promise<void>) | undefined;

/** Runs once before all test files: one PostgreSQL for the whole run, found by the test files through the environment. */
export async function globalSetup(): Promise<void> {
  const started = await startTestServer();
  stop = started.stop;
  process.env[TEST_SERVER_VARIABLE] = JSON.stringify(started.server);
  if (process.env[BUILD_VARIABLE] === "1") await buildDashboard();
}

/** A build that fails fails the tests that look at it, not the others. */
async function buildDashboard(): Promise<void> {
  const { ensureBuilt } = await import("../../packages/server/src/features/dashboard/build.ts");
  await ensureBuilt({ clone: root, clock: systemClock, log: createLog({ level: "warn" }) }).catch(() => {});
}

/** Runs once after all test files, failed or not. */
export async function globalTeardown(): Promise<void> {
  await stop?.();
}
