import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test, type TestContext } from "node:test";
import { type Client, createClient } from "@roamfleet/sdk";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";

const LIMIT = { timeout: promiseSize({ test: 120_000, full: 1_800_000 }) };
const PAIRS = promiseSize({ test: 18, full: 10_000 });
const ROBOTS = promiseSize({ test: 9, full: 1_000 });
const AT_ONCE = 60;
/** Maximum duration of a round of all robots, some of which wait for deadlines and retries. */
const ROUND_MS_MAX = promiseSize({ test: 60_000, full: 300_000 });
const HOUR_MS = 3_600_000;
/** Clock offsets of three nodes: one ahead, one correct, one behind. */
const APART_MS = [HOUR_MS, 0, -HOUR_MS];

type Client3 = readonly Client[];
interface Pair {
  robot: SimulatedRobot;
  kind: "release" | "config";
  older: string;
  newer: string;
  /** The older deployment is paused before the newer one is created. */
  paused: boolean;
  /** Tag of the release that the robot must run in the end; undefined for a config. */
  tag: string | undefined;
}

const clients = (plane: Harness): Client3 =>
  plane.nodes.map(({ url }) => createClient({ base_url: url, token: plane.default_org.admin_token, retries: 0 }));

async function inParallel<T, R>(items: readonly T[], work: (item: T, index: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const left = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of left) results[index] = await work(item, index);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}

/** Creates two deployments to an offline robot, each on another node. Every third pair deploys a config. */
async function createPair(
  of_nodes: Client3,
  robot: SimulatedRobot,
  number: number,
  releases: readonly { id: string; tag: string }[],
  round: number,
): Promise<Pair> {
  // Use every combination of clocks in turn. The first is the worst: the node that creates the older deployment is an hour ahead.
  const [first, second] = [of_nodes[number % 3], of_nodes[(number + 2 - (Math.floor(number / 3) % 3) + 3) % 3]];
  assert.ok(first && second);
  const kind = number % 3 === 2 ? "config" : "release";
  const paused = number % 3 === 1;
  const create = async (by: Client, release: number): Promise<string> =>
    kind === "config"
      ? (await by.createConfigDeployment({ body: { robot_id: robot.id, namespace: "order" }, idempotency_key: randomUUID() })).data.id
      : (
          await by.createDeployment({
            body: { robot_id: robot.id, release: releases[release % 3]?.id ?? "" },
            idempotency_key: randomUUID(),
          })
        ).data.id;
  const older = await create(first, 2 * round);
  if (paused) await second.pauseDeployment({ params: { id: older } });
  const newer = await create(second, 2 * round + 1);
  return { robot, kind, older, newer, paused, tag: kind === "config" ? undefined : releases[(2 * round + 1) % 3]?.tag };
}

const OPEN = sql`select from deployment where status not in ('applied', 'failed', 'rolled_back', 'cancelled') limit 1`;

async function endOf(by: Client, { kind }: Pair, id: string): Promise<string> {
  const get = kind === "config" ? by.getConfigDeployment : by.getDeployment;
  const { status, reason } = (await get({ params: { id } })).data;
  return reason === null ? status : `${status}, ${reason}`;
}

/** Disconnects the robot of a pair whose deployments have ended. Returns violations, and whether the newer one was applied. */
async function finishPair(by: Client, pair: Pair): Promise<{ wrong: string[]; applied: boolean }> {
  const newer = await endOf(by, pair, pair.newer);
  const older = await endOf(by, pair, pair.older);
  const runs = pair.tag === undefined ? undefined : pair.robot.runs();
  await pair.robot.disconnect();
  // Clocks this far apart also invalidate signatures and deadlines. That ends an attempt, but does not change the order.
  const right = older === "cancelled, superseded" && !newer.startsWith("cancelled") && (!newer.startsWith("applied") || runs === pair.tag);
  const words = `${pair.kind}${pair.paused ? ", paused" : ""}: the older one ${older}, the newer one ${newer}`;
  return { wrong: right ? [] : [words], applied: newer.startsWith("applied") };
}

const UNDECIDED = sql`
  select from deployment_target t join deployment d on d.org_id = t.org_id and d.id = t.deployment_id
  where t.status = 'queued' and t.waiting_for is null and d.status <> 'paused'`;

async function run(plane: Harness, robots: readonly SimulatedRobot[], releases: readonly { id: string; tag: string }[], pairs: number) {
  const of_nodes = clients(plane);
  const wrong: string[] = [];
  let applied = 0;
  for (let round = 0; round * robots.length < pairs; round += 1) {
    await plane.until(
      "every robot to be offline",
      async () => (await plane.db.run(sql`select from robot where node_id is not null`)) === 0,
    );
    const made = await inParallel(robots, (robot, index) => createPair(of_nodes, robot, index + round, releases, round));
    // It is no error if the older deployment is applied before the newer one is processed.
    await plane.until("every target to wait for its robot", async () => (await plane.db.run(UNDECIDED)) === 0);
    await inParallel(made, ({ robot }) => robot.connect());
    await plane.until("every deployment to end", async () => (await plane.db.run(OPEN)) === 0, { deadline_ms: ROUND_MS_MAX });
    const ends = await inParallel(made, (pair, index) => finishPair(of_nodes[(index + round) % of_nodes.length] ?? plane.api, pair));
    wrong.push(...ends.flatMap((end) => end.wrong));
    applied += ends.filter((end) => end.applied).length;
  }
  assert.deepEqual(wrong, []);
  assert.ok(applied > 0, "some newer deployments were applied");
  return applied;
}

test("the newer of two deployments wins even if the servers' clocks are wrong by hours or years", LIMIT, async (t: TestContext) => {
  await using plane = await startPlane({ nodes: 3, clock_offsets_ms: APART_MS });
  const robots = await plane.enrollRobots(ROBOTS, { online: false });
  const releases = [await plane.release(), await plane.release(), await plane.release()];
  await plane.api.setConfig({ body: { key: "limit", value: 1, namespace: "order" } });
  const apart = await run(plane, robots, releases, PAIRS / 2);
  // Create the older deployments before the restart, with a correct clock. The newer ones are created with a clock in 1970.
  const with_release_next = robots.filter((_, index) => index % 3 !== 2);
  const before = await inParallel(with_release_next, async ({ id: robot_id }) => {
    const { data } = await plane.api.createDeployment({
      body: { robot_id, release: releases[0]?.id ?? "" },
      idempotency_key: randomUUID(),
    });
    return data.id;
  });
  await plane.stop();
  // Around 2 January 1970, since no clock can be before 1970.
  plane.clock_offsets_ms = APART_MS.map((ms) => ms - Date.now() + 24 * HOUR_MS);
  await plane.restart();
  const in_1970 = await run(plane, robots, releases, PAIRS / 2);
  for (const id of before) assert.equal((await plane.deployment(id)).reason, "superseded");
  provePromise(
    t,
    31,
    `order: ${PAIRS} pairs of deployments on 3 servers with clocks 1 h apart, half of them after all three boot in 1970: 0 wrong, ${apart + in_1970} newer ones applied; ${before.length} from before that boot superseded by newer ones`,
  );
});
