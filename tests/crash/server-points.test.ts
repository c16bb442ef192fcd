import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reached } from "@roamfleet/clock/failpoint";
import pg from "pg";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";
import { choosePoints, Crasher } from "./crasher.ts";
import { fleetRound, updateLockRound } from "./fleet-rounds.ts";
import { Ledger } from "./ledger.ts";
import { Scenario } from "./scenario.ts";

const POINTS = 9;
const LIMIT = { timeout: promiseSize({ test: 420_000, full: 3_300_000 }) };
/** Number of concurrent servers, each with a separate database, robot and share of the points. */
const LANES = promiseSize({ test: 1, full: 3 });
/** Maximum rounds in which a failpoint is tried. A failpoint that was not reached is tried again at the end. */
const TRIES = promiseSize({ test: 1, full: 2 });
/** Maximum share of failpoints that are not reached. Some belong to timers with intervals of 15 minutes. */
const MISSED_MAX = promiseSize({ test: 0.5, full: 0.02 });
/** Tables by the path of the POST that inserts into them. */
const TABLES = {
  "/api/sites": "site",
  "/api/fleets": "fleet",
  "/api/releases": "release",
  "/api/deployments": "deployment",
  "/api/configs/deployments": "deployment",
  "/api/enrollment-keys": "enrollment_key",
};

/** Failpoints in the order in which the scenario reached them, and the subset that only deployments to a fleet reached. */
interface Traced {
  traced: Reached[];
  in_fleets: ReadonlySet<string>;
}

/** A server that crashes on demand, with the scenario that uses it. */
class Lane implements AsyncDisposable {
  readonly crasher: Crasher;
  readonly ledger: Ledger;
  readonly scenario: Scenario;
  rounds = 0;
  readonly #own: AsyncDisposableStack;
  readonly #server: ServerProcess;
  readonly #connection: pg.ClientConfig;

  private constructor(own: AsyncDisposableStack, server: ServerProcess, connection: pg.ClientConfig, token: string) {
    this.#own = own;
    this.#server = server;
    this.#connection = connection;
    this.crasher = own.use(
      new Crasher((env) => {
        server.env = env;
        return (server.program = server.run());
      }),
    );
    this.ledger = new Ledger(
      () => server.url,
      token,
      () => this.crasher.crashes(),
    );
    this.scenario = new Scenario(this.ledger, () => assert.fail("the robot has not started"));
  }

  static async open(): Promise<Lane> {
    await using own = new AsyncDisposableStack();
    const { connection } = own.use(await createTestDatabase());
    const server = own.use(
      await ServerProcess.start({
        env: { DATABASE_URL: databaseUrl(connection) },
        args: ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
      }),
    );
    const { token } = await server.org("Crashes");
    await server.program.stop();
    return new Lane(own.move(), server, connection, token);
  }

  /** Starts the robot. With `trace`, also runs the whole scenario once and returns the failpoints that it reached. */
  async begin({ trace }: { trace: boolean }): Promise<Traced> {
    const { crasher, scenario } = this;
    if (trace) crasher.trace();
    else crasher.plain();
    const { key } = await scenario.prepare();
    const robot = this.#own.use(new AgentProcess({ url: this.#server.url, key, name: "cart-1" }));
    scenario.robot = () => robot;
    await scenario.waitForRobot();
    scenario.restart_robot = async () => {
      await robot.program.kill();
      robot.restart();
    };
    const before: Reached[] = [];
    if (trace) {
      await this.#everyday();
      before.push(...crasher.traced());
      await fleetRound(scenario);
    }
    await this.#server.program.kill();
    const traced = crasher.traced();
    return { traced, in_fleets: new Set(traced.slice(before.length).map(({ point }) => point)) };
  }

  async #everyday(): Promise<void> {
    await this.scenario.deskRound();
    if (this.crasher.done && this.crasher.kills.length > 0) return;
    await this.scenario.robotRound();
    await updateLockRound(this.scenario);
  }

  /** Crashes at one failpoint after the other, while one round runs. Returns the failpoints that were not reached. */
  async dieAt(points: readonly string[], in_fleets: ReadonlySet<string>): Promise<string[]> {
    const { crasher, scenario } = this;
    const missed_before = crasher.unreached.length;
    crasher.crashAt(points);
    while (!crasher.done) {
      const { armed } = crasher;
      this.rounds += 1;
      await (in_fleets.has(armed ?? "") ? fleetRound(scenario) : this.#everyday());
      if (crasher.armed === armed) await crasher.skip();
    }
    await scenario.runs();
    const missed = crasher.unreached.slice(missed_before);
    await crasher.rest();
    return missed;
  }

  /** Kills the server with SIGKILL once more and restarts it. Then checks that all acknowledged data exists as it was returned. */
  async check(): Promise<{ replays: number; resources: number }> {
    await this.crasher.rest();
    await this.#server.restart();
    const replays = await this.ledger.checkReplays();
    const resources = await this.ledger.checkResources();
    await checkRows(this.#connection, this.ledger);
    return { replays, resources };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.disposeAsync();
  }
}

/** Runs one lane's share of the points, each at most `TRIES` times. */
async function runLane(
  lane: Lane,
  points: readonly string[],
  in_fleets: ReadonlySet<string>,
): Promise<{ replays: number; resources: number; missed: string[] }> {
  let missed: string[] = [...points];
  for (let tries = 0; tries < TRIES && missed.length > 0; tries += 1) missed = await lane.dieAt(missed, in_fleets);
  return { ...(await lane.check()), missed };
}

test("a server killed at failpoints in its transactions loses no acknowledged write and ends every deployment", LIMIT, async (t) => {
  await using own = new AsyncDisposableStack();
  const lanes: Lane[] = [];
  for (let n = 0; n < LANES; n += 1) lanes.push(own.use(await Lane.open()));
  const [{ traced, in_fleets } = assert.fail("no lane")] = await Promise.all(
    lanes.map((lane, index) => lane.begin({ trace: index === 0 })),
  );
  const points = choosePoints(traced, POINTS);
  const figures = await Promise.all(
    lanes.map((lane, index) =>
      runLane(
        lane,
        points.filter((_, at) => at % LANES === index),
        in_fleets,
      ),
    ),
  );
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const kills = lanes.flatMap(({ crasher }) => crasher.kills);
  const missed = figures.flatMap((figure) => figure.missed);
  t.diagnostic(`unreached: ${missed.join(" ") || "none"}`);
  assert.ok(kills.every(({ action, within }) => action === "killed" && (within === "transaction" || within === "statement")));
  assert.equal(new Set(kills.map(({ point }) => point)).size, points.length - missed.length);
  assert.ok(missed.length <= points.length * MISSED_MAX, missed.join(" "));
  provePromise(
    t,
    19,
    `server killed at ${kills.length} of ${traced.length} points in its transactions (${points.length} tried, ${sum(lanes.map(({ rounds }) => rounds))} rounds): ` +
      `${sum(lanes.map(({ scenario }) => scenario.ended.length))} deployments ended, one version ran after each; ` +
      `${sum(figures.map(({ replays }) => replays))} replays byte-equal, ${sum(figures.map(({ resources }) => resources))} resources as returned, 0 lost`,
  );
});

/** Fails unless every acknowledged id that was not deleted is a row. */
async function checkRows(connection: pg.ClientConfig, ledger: Ledger): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    for (const [path, table] of Object.entries(TABLES)) {
      const ids = ledger.ids(path);
      const { rows } = await client.query<{ id: string }>(`select id from ${table} where id = any($1)`, [ids]);
      const found = new Set(rows.map(({ id }) => id));
      assert.deepEqual(
        ids.filter((id) => !found.has(id)),
        [],
        `acknowledged by POST ${path} and lost`,
      );
    }
  } finally {
    await client.end();
  }
}
