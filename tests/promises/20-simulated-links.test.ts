import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PLANTS } from "../../tools/simulate/server.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { Program } from "../processes/process.ts";

const MAIN = "tools/simulate/main.ts";
/** Timeout of a run in the full size. */
const HOURS = 4 * 3_600_000;

/** Runs the simulation as a user does, and returns its output. */
async function simulate(args: readonly string[]): Promise<string> {
  const program = new Program(MAIN, args);
  const { code } = await program.ended;
  assert.equal(code, 0, program.output);
  return program.output.trim();
}

// Run them concurrently, because at full size each takes more than an hour of one core.
describe(
  "deployments obey all rules when messages are lost or reordered and processes are killed",
  { concurrency: 2, timeout: HOURS },
  () => {
    test("the in-memory model of the deployment engine obeys all rules", { timeout: HOURS }, async (t) => {
      const schedules = promiseSize({ test: 4_000, full: 1_000_000 });
      const said = await simulate(["--seed", "1", "--schedules", String(schedules)]);
      provePromise(t, 20, said.split("\n").join("; "));
    });

    test("the server's deployment engine on PostgreSQL obeys all rules", { timeout: HOURS }, async (t) => {
      const schedules = promiseSize({ test: 60, full: 20_000 });
      const said = await simulate(["--whole", "--seed", "1", "--schedules", String(schedules)]);
      provePromise(t, 20, said.split("\n").join("; "));
    });
  },
);

/** Seeds of schedules that have broken a rule before. */
const ONCE_BROKEN = [21_067, 36_486, 44_836, 97_156];

for (const seed of ONCE_BROKEN)
  test(`a simulated schedule that broke a rule in the past obeys all rules (seed ${seed})`, { timeout: 120_000 }, async () => {
    await simulate(["--seed", String(seed), "--schedules", "1"]);
  });

for (const plant of PLANTS) {
  test(`the simulation finds the planted fault ${plant}`, { timeout: 600_000 }, async (t) => {
    const said = await simulate(["--plant", plant]);
    provePromise(t, 20, said.split("\n").at(-1) ?? "");
  });
}
