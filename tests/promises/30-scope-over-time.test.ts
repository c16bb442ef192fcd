import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { Client } from "@roamfleet/sdk";
import { rollBack, type SimulatedRobot } from "@roamfleet/swarm/testing";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";

const TIMEOUT = { timeout: 3_600_000 };
const AT = "2030-01-01T00:00:00Z";
/** Rounds of each combination of action and loss. */
const ROUNDS = promiseSize({ test: 1, full: 5 });
/** Number of losses with which each action is combined, in turn. */
const LOSSES_EACH = promiseSize({ test: 1, full: 5 });

interface Case {
  plane: Harness;
  fleet_id: string;
  elsewhere: string;
  robots: SimulatedRobot[];
  /** A client with the token of the fleet's operator. */
  api: Client;
  user_id: string;
  token_id: string;
}

/** Starts an action of the operator; returns a function that continues it after the loss of access. Robots are offline in between. */
type Begin = (of: Case) => Promise<() => Promise<unknown>>;

const key = () => ({ idempotency_key: randomUUID() });
const nothing = async (): Promise<void> => {};

async function deploy({ api, fleet_id }: Case, release: { id: string }, more: object = {}): Promise<string> {
  return (await api.createDeployment({ body: { release: release.id, fleet_id, ...more }, ...key() })).data.id;
}

async function offline({ plane, robots }: Case): Promise<void> {
  for (const robot of robots) await robot.disconnect();
  await plane.settle();
}

/** Returns a release that all robots of the case run, deployed by an admin. */
async function installed({ plane, fleet_id }: Case): Promise<void> {
  await plane.deploy(await plane.release(), { fleet_id });
  await plane.settle();
}

const inAMinute = ({ plane }: Case): string => new Date(plane.clock.now().getTime() + 60_000).toISOString();

const ACTIONS: Record<string, Begin> = {
  "deployment to a fleet": async (of) => {
    await offline(of);
    await deploy(of, await of.plane.release());
    return nothing;
  },
  "deployment to a robot": async (of) => {
    await offline(of);
    const release = (await of.plane.release()).id;
    for (const { id } of of.robots) await of.api.createDeployment({ body: { release, robot_id: id }, ...key() });
    return nothing;
  },
  "scheduled deployment to a fleet": async (of) => {
    await deploy(of, await of.plane.release(), { scheduled_at: inAMinute(of) });
    return () => of.plane.advance({ seconds: 70 });
  },
  "scheduled deployments to robots": async (of) => {
    const release = (await of.plane.release()).id;
    const scheduled_at = inAMinute(of);
    for (const { id } of of.robots) await of.api.createDeployment({ body: { release, robot_id: id, scheduled_at }, ...key() });
    return () => of.plane.advance({ seconds: 70 });
  },
  "deployment that waits for its artifact": async (of) => {
    const release = await of.plane.release({ upload: false });
    await deploy(of, release);
    await of.plane.settle();
    return () => of.plane.upload(release.id);
  },
  "later wave that an admin promotes": async (of) => {
    const id = await deploy(of, await of.plane.release(), { rollout: { waves: [{ count: 1, gate: "manual" }, { percent: 100 }] } });
    await of.plane.settle();
    return () => of.plane.api.promoteDeployment({ params: { id } }).catch(() => {});
  },
  "paused deployment that an admin resumes": async (of) => {
    await offline(of);
    const id = await deploy(of, await of.plane.release());
    await of.api.pauseDeployment({ params: { id } });
    return () => of.plane.api.resumeDeployment({ params: { id } }).catch(() => {});
  },
  "config deployment": async (of) => {
    await of.plane.api.setConfig({ body: { key: "speed", value: randomUUID(), scope: "fleet", scope_id: of.fleet_id } });
    await offline(of);
    await of.api.createConfigDeployment({ body: { fleet_id: of.fleet_id }, ...key() });
    return nothing;
  },
  "rollback of a running deployment": async (of) => {
    await installed(of);
    const [late] = of.robots;
    await late?.disconnect();
    const id = await deploy(of, await of.plane.release());
    await of.plane.settle();
    await offline(of);
    await of.api.rollBackDeployment({ params: { id } });
    return nothing;
  },
  "rollback of an ended deployment": async (of) => {
    await installed(of);
    const id = await deploy(of, await of.plane.release());
    await of.plane.settle();
    await offline(of);
    await of.api.rollBackDeployment({ params: { id } });
    return nothing;
  },
  "retry of a failed deployment": async (of) => {
    await installed(of);
    const release = await of.plane.release();
    for (const robot of of.robots) robot.behave(rollBack("crash_loop"), release.id);
    const id = await deploy(of, release);
    await of.plane.settle();
    await offline(of);
    await of.api.retryDeployment({ params: { id }, body: {} });
    return nothing;
  },
};

/** Ways in which an admin removes the operator's access to the robots. */
const LOSSES: Record<string, (of: Case) => Promise<unknown>> = {
  "robots moved": ({ plane, robots, elsewhere }) =>
    plane.api.bulkUpdateRobots({ body: { robot_ids: robots.map(({ id }) => id), fleet_id: elsewhere } }),
  removed: ({ plane, user_id }) => plane.api.deleteUser({ params: { id: user_id } }),
  demoted: ({ plane, user_id }) => plane.api.updateUser({ params: { id: user_id }, body: { role: "viewer" } }),
  "limited to another fleet": ({ plane, user_id, elsewhere }) =>
    plane.api.updateUser({ params: { id: user_id }, body: { scopes: [{ fleet_id: elsewhere }] } }),
  "token revoked": ({ plane, token_id }) => plane.api.revokeToken({ params: { id: token_id } }),
};

/** Number of dispatches and rollbacks that reached the robots, according to their events. */
async function handOvers({ plane, robots }: Case): Promise<number> {
  let count = 0;
  for (const { id } of robots)
    count += (
      await plane.db.one(sql(row({ count: int }))`
        select count(*)::int as count from deployment_event
        where robot_id = ${id} and (kind = 'target.dispatched' or (kind = 'target.rolling_back' and reason = 'rollback_requested'))`)
    ).count;
  return count;
}

const running = ({ plane, robots }: Case) =>
  Promise.all(
    robots.map(async (robot) => {
      const { data } = await plane.api.getRobot({ params: { id: robot.id } });
      return [data.current_release?.id ?? null, robot.config() ?? null];
    }),
  );

async function newCase(plane: Harness): Promise<Case> {
  const [fleet_id, elsewhere] = [await plane.fleet(), await plane.fleet()];
  const robots = await plane.enrollRobots(2, { fleet_id });
  const user = (
    await plane.api.createUser({
      body: { email: `${randomUUID()}@example.org`, name: "Ada", role: "operator", scopes: [{ fleet_id }] },
    })
  ).data;
  const made = (await plane.api.createToken({ body: { label: "laptop", role: "operator", user_id: user.id } })).data;
  return { plane, fleet_id, elsewhere, robots, api: plane.default_org.client(made.token ?? ""), user_id: user.id, token_id: made.id };
}

test("an action no longer affects robots that its creator has lost access to", TIMEOUT, async (t) => {
  await using plane = await startPlane({ at: AT });
  const losses = Object.entries(LOSSES);
  const counted = { cases: 0, races: 0, actions: 0 };
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [index, [action, begin]] of Object.entries(ACTIONS).entries())
      for (let nth = 0; nth < LOSSES_EACH; nth += 1) {
        const [loss, take] = losses[(index + round + nth) % losses.length] ?? assert.fail("no loss");
        const of = await newCase(plane);
        const go = await begin(of);
        // In every second case the robots reconnect at the moment of the loss.
        const races = (index + round + nth) % 2 === 1;
        const back = races ? Promise.all(of.robots.filter((robot) => !robot.connected).map((robot) => robot.connect())) : undefined;
        await take(of);
        const before = await handOvers(of);
        await back;
        const had = races ? undefined : await running(of);
        for (const robot of of.robots) if (!robot.connected) await robot.connect();
        await plane.settle();
        await go();
        await plane.advance({ seconds: 10 });
        const done = (await handOvers(of)) - before;
        counted.actions += done;
        assert.equal(done, 0, `${action}, ${loss}`);
        if (had !== undefined) assert.deepEqual(await running(of), had, `${action}, ${loss}`);
        counted.cases += 1;
        counted.races += races ? 1 : 0;
        for (const robot of of.robots) await robot.disconnect();
      }
  provePromise(
    t,
    30,
    `${counted.cases} losses of ${losses.length} kinds between ${Object.keys(ACTIONS).length} kinds of actions and their claim, ${counted.races} of them while the robots came back: ${counted.actions} actions outside the present scope`,
  );
});

test("an enrollment key enrolls no robot after its creator has lost access to the fleet", TIMEOUT, async (t) => {
  await using plane = await startPlane({ at: AT });
  let refused = 0;
  const cases = Object.entries(LOSSES).filter(([name]) => name !== "robots moved");
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [loss, take] of cases) {
      const of = await newCase(plane);
      const { site_id } = (await plane.api.getFleet({ params: { id: of.fleet_id } })).data;
      const body = { site_id, fleet_id: of.fleet_id, max_uses: 0, expires_in_hours: 0 };
      const made = (await of.api.createEnrollmentKey({ body })).data;
      const enroll = async (): Promise<number> => {
        const public_key = Buffer.from(randomUUID().replaceAll("-", "")).toString("base64");
        return (await plane.default_org.client().request("POST", "/agent/enroll", { body: { key: made.key, public_key } })).status;
      };
      assert.equal(await enroll(), 201, loss);
      await take(of);
      assert.equal(await enroll(), 403, loss);
      refused += 1;
      for (const robot of of.robots) await robot.disconnect();
    }
  provePromise(t, 30, `${refused} enrollments by keys of makers who had lost the fleet: 0 robots enrolled`);
});
