import { startTestServer, TEST_SERVER_VARIABLE } from "../../packages/server/src/engines/db/testing/test-server.ts";

let stop: (() => Promise<void>) | undefined;

/** Runs once before all test files: one PostgreSQL for the whole run, found by the test files through the environment. */
export async function globalSetup(): Promise<void> {
  const started = await startTestServer();
  stop = started.stop;
  process.env[TEST_SERVER_VARIABLE] = JSON.stringify(started.server);
}

/** Runs once after all test files, failed or not. */
export async function globalTeardown(): Promise<void> {
  await stop?.();
}
