import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type Harness, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { choosePoints, Crasher } from "./crasher.ts";
import { updateLockRound } from "./fleet-rounds.ts";
import { Ledger } from "./ledger.ts";
import { Scenario } from "./scenario.ts";

const POINTS = 14;
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 3_600_000 }) };
/** Number of concurrent robots, each with a share of the points. */
const LANES = 2;
const ROUNDS_MAX = promiseSize({ test: 4, full: 400 });
/** Failpoints that every append passes. They are tried several times, because later passes belong to other steps of a deployment. */
const REPEATED = /^(deployments|configs|outbox|journal)[:.].*append$/;
const REPEATS = promiseSize({ test: 0, full: 6 });
/** Maximum crashes in one round. An agent that crashes repeatedly in one phase correctly aborts the deployment. */
const DEATHS_A_ROUND = 8;

/** Creates a robot in a separate org, with its scenario. */
async function lane(plane: Harness, crasher: () => Crasher): Promise<{ scenario: Scenario; key: string }> {
  const org = await plane.org();
  const scenario: Scenario = new Scenario(
    new Ledger(
      () => plane.url,
      org.admin_token,
      () => crasher().crashes(),
    ),
    () => {
      throw new Error("the robot has not started");
    },
  );
  return { scenario, ...(await scenario.prepare()) };
}

/** Runs a round with a new robot, so that its enrollment is tested too. The agent crashes at one failpoint after the other. */
async function round(plane: Harness, crashes: readonly string[] | "list"): Promise<{ crasher: Crasher; ended: number }> {
  await using robot = new AgentProcess({ url: plane.url, key: "", name: "cart" }, { start: false });
  const crasher = new Crasher((env) => {
    robot.options.env = env;
    robot.restart();
    return robot.program;
  });
  const { scenario, key } = await lane(plane, () => crasher);
  robot.options.key = key;
  scenario.robot = () => robot;
  if (crashes === "list") crasher.trace();
  else crasher.crashAt(crashes);
  await scenario.waitForRobot();
  await scenario.robotRound();
  await updateLockRound(scenario);
  if (crashes === "list") await robot.program.kill();
  else await crasher.rest();
  return { crasher, ended: scenario.ended.length };
}

test("every deployment ends with one running version when the agent is killed at its failpoints", LIMIT, async (t) => {
  await using plane = await startPlane();
  const { crasher: tracer } = await round(plane, "list");
  const traced = tracer.traced();
  tracer[Symbol.dispose]();
  const names = choosePoints(traced, POINTS);
  const points = [...names, ...names.filter((name) => REPEATED.test(name)).flatMap((name) => later(name))];
  const figures = await Promise.all(
    Array.from({ length: LANES }, (_, index) =>
      runLane(
        plane,
        points.filter((_, at) => at % LANES === index),
      ),
    ),
  );
  const killed = new Set(figures.flatMap((figure) => figure.killed));
  say(t, points.length, traced.length, killed, figures);
  assert.ok(
    killed.size >= names.length * 0.7,
    `${killed.size} of ${names.length}: missed ${names.filter((name) => !killed.has(name)).join(" ")}`,
  );
});

const later = (name: string): string[] => Array.from({ length: REPEATS }, (_, index) => `${name}#${index + 2}`);

async function runLane(
  plane: Harness,
  points: readonly string[],
): Promise<{ killed: string[]; crashes: number; ended: number; rounds: number }> {
  const waves = Math.ceil(points.length / DEATHS_A_ROUND);
  const queue = Array.from({ length: waves }, (_, wave) => points.filter((_, at) => at % waves === wave));
  const killed: string[] = [];
  let [ended, rounds, crashes] = [0, 0, 0];
  // A failpoint that was not reached in a whole round is tried again at the end.
  const missed = new Set<string>();
  for (let wave = queue.shift(); wave !== undefined && rounds < ROUNDS_MAX; wave = queue.shift()) {
    rounds += 1;
    const done = await round(plane, wave);
    using crasher = done.crasher;
    ended += done.ended;
    crashes += crasher.kills.length;
    killed.push(...crasher.kills.map(({ point }) => point));
    const [unreached, ...rest] = wave.slice(crasher.kills.length);
    if (rest.length > 0) queue.push(rest);
    if (unreached !== undefined && !missed.has(unreached)) queue.push([unreached]);
    if (unreached !== undefined) missed.add(unreached);
  }
  return { killed, crashes, ended, rounds };
}

function say(
  t: TestContext,
  tried: number,
  traced: number,
  killed: Set<string>,
  figures: { crashes: number; ended: number; rounds: number }[],
): void {
  const sum = (of: "crashes" | "ended" | "rounds"): number => figures.reduce((total, figure) => total + figure[of], 0);
  provePromise(
    t,
    19,
    `agent killed ${sum("crashes")} times at ${killed.size} of ${traced} points in journal steps and side effects (${tried} tried, ` +
      `${sum("rounds")} robots): ${sum("ended")} deployments ended, the old or the new version ran after each`,
  );
}
