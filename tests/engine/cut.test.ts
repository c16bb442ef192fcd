import assert from "node:assert/strict";
import { test } from "node:test";
import { idSource } from "@roamfleet/clock";
import { SimulatedRobot } from "@roamfleet/swarm/testing";
import { int, list, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { makeIdentity } from "../../packages/swarm/src/testing/identity.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { Proxy } from "../harness/proxy.ts";
import { isAtLeast } from "../harness/log-level.ts";

const TIMEOUT = { timeout: 180_000 };
const COUNT = 2_000;
const CONNECTING = 64;

/** Inserts robots directly into the tables, because enrolling that many takes too long. */
async function seedRobots(plane: Harness, count: number): Promise<SimulatedRobot[]> {
  const { fleet_id, site_id } = await plane.api
    .getFleet({ params: { id: await plane.homeFleet() } })
    .then(({ data }) => ({ ...data, fleet_id: data.id }));
  const org_id = plane.default_org.id;
  const id = idSource(plane.clock);
  const made = Array.from({ length: count }, () => ({ robot_id: id("rob"), identity: makeIdentity() }));
  const ids = list(made.map(({ robot_id }) => robot_id));
  const keys = list(made.map(({ identity }) => Buffer.from(identity.public_key, "base64")));
  const now = plane.clock.now();
  await plane.db.run(sql`
    with made as (
      insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
      select ${org_id}, id, id, ${site_id}, ${fleet_id}, public_key, ${now}, ${now} from unnest(${ids}::text[], ${keys}::bytea[]) as n (id, public_key)
      returning id, public_key)
    insert into robot_key (public_key, org_id, robot_id, created_at) select public_key, ${org_id}, id, ${now} from made`);
  return made.map(({ robot_id, identity }) => new SimulatedRobot(plane.swarm, identity, { robot_id, org_id, name: robot_id }));
}

const goneRow = row({ robots: int, entries: int, transactions: int, online: int });
const goneOf = ({ db }: Harness) =>
  db.one(sql(goneRow)`
    select count(distinct robot_id)::int as robots, count(*)::int as entries, count(distinct xmin::text)::int as transactions,
      (select count(*)::int from robot where node_id is not null) as online
    from timeline_entry where kind = 'robot.disconnected'`);

test(`records ${COUNT} concurrent disconnects once each in a few transactions`, TIMEOUT, async (t) => {
  await using plane = await startPlane();
  const robots = await seedRobots(plane, COUNT);
  await using proxy = await Proxy.start(plane.url);
  plane.swarm.url = proxy.url;
  const left = [...robots];
  await Promise.all(
    Array.from({ length: CONNECTING }, async () => {
      for (let robot = left.pop(); robot !== undefined; robot = left.pop()) await robot.connect();
    }),
  );
  await plane.until("all robots are online", async () => (await goneOf(plane)).online === COUNT);
  const logged = plane.logged.length;
  proxy.reset();
  const gone = await plane.until("all robots are offline", async () => {
    const now = await goneOf(plane);
    return now.online === 0 && now;
  });
  t.diagnostic(`${gone.transactions} transactions`);
  assert.deepEqual([gone.robots, gone.entries], [COUNT, COUNT]);
  assert.ok(gone.transactions <= COUNT / 20, `${gone.transactions} transactions`);
  assert.deepEqual(
    plane.logged.slice(logged).filter((line) => isAtLeast("warn", line)),
    [],
  );
});

test("a stopping server records the disconnect of every robot before it exits", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robots = await seedRobots(plane, 200);
  await Promise.all(robots.map((robot) => robot.connect()));
  await plane.stop();
  const { robots: recorded, entries, online } = await goneOf(plane);
  assert.deepEqual([recorded, entries, online], [200, 200, 0]);
  assert.deepEqual(
    plane.logged.filter((line) => isAtLeast("error", line)),
    [],
  );
});
