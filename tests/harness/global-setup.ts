import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { root } from "../../bin/launch.mjs";
import { startTestServer, TEST_SERVER_VARIABLE } from "../../packages/server/src/engines/db/testing/test-server.ts";

/** Set by tools/test.ts if the run includes a test of the dashboard. */
const BUILD_VARIABLE = "ROAMFLEET_TEST_DASHBOARD";
/** Set by tools/test.ts to "1" if the run has several files. In test files, its value is the directory of the bundled programs. */
const PROGRAMS_VARIABLE = "ROAMFLEET_TEST_PROGRAMS";

let stop: (() => Promise<void>) | undefined;

/** Runs once before all test files: starts one PostgreSQL for the whole run, whose address is in the environment. */
export async function globalSetup(): Promise<void> {
  const started = await startTestServer();
  stop = started.stop;
  process.env[TEST_SERVER_VARIABLE] = JSON.stringify(started.server);
  if (process.env[BUILD_VARIABLE] === "1") await buildDashboard();
  if (process.env[PROGRAMS_VARIABLE] === "1") process.env[PROGRAMS_VARIABLE] = await (await import("./programs.ts")).buildPrograms();
}

/** Builds the dashboard. A failure is ignored here and fails only the tests of the dashboard. */
async function buildDashboard(): Promise<void> {
  const { ensureBuilt } = await import("../../packages/server/src/features/dashboard/build.ts");
  await ensureBuilt({ clone: root, clock: systemClock, log: createLog({ level: "warn" }) }).catch(() => {});
}

/** Runs once after all test files, failed or not. */
export async function globalTeardown(): Promise<void> {
  await stop?.();
}
