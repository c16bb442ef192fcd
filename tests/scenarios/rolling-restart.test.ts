import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { type Client, createClient } from "@roamfleet/sdk";
import { SimulatedRobot, Swarm } from "@roamfleet/swarm/testing";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { Balancer } from "../harness/balancer.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 240_000 };
const ROBOTS = 6;
const CALLERS = 4;
/** The drain of a stopping server is longer than a caller's pause between two requests on a connection. */
const ARGS = ["--limit", "drain_seconds=3", "--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"];

/** Reads and writes in turn until stopped; returns the failures. */
async function callWithoutEnd(api: Client, state: { stopped: boolean; calls: number; failed: string[] }): Promise<void> {
  while (!state.stopped) {
    const work = state.calls % 3 === 0 ? api.createSite({ body: { name: `Site ${randomUUID()}` } }) : api.listRobots({});
    await work.catch((error: unknown) => state.failed.push(String(error instanceof Error ? (error.cause ?? error) : error)));
    state.calls += 1;
  }
}

test("no request fails while servers are restarted one by one, and robots move to the other server", OPTIONS, async (t) => {
  await using own = new AsyncDisposableStack();
  const database = await createTestDatabase();
  own.defer(() => database.drop());
  const nats = own.use(await NatsServer.start());
  const env = { DATABASE_URL: databaseUrl(database.connection), ROAMFLEET_BUS_URL: nats.url(), ROAMFLEET_NODE_LISTEN: "127.0.0.1:0" };
  const servers = [
    own.use(await ServerProcess.start({ nodes: 1, env, args: ARGS })),
    own.use(await ServerProcess.start({ nodes: 1, env, args: ARGS })),
  ];
  const balancer = own.use(await Balancer.start(() => servers.map(({ url }) => url)));
  const { token } = await servers[0]!.org("Rolling");
  const api = createClient({ base_url: balancer.url, token });
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id, label: "carts" } })).data;
  assert.ok(key !== null);
  const swarm = new Swarm({ url: balancer.url, reconnects: true });
  own.defer(() => swarm.stop());
  const robots: SimulatedRobot[] = [];
  for (let n = 0; n < ROBOTS; n += 1) robots.push(await SimulatedRobot.enroll(swarm, { key, name: `cart-${n}` }));
  for (const robot of robots) await robot.connect();
  const online = async (of: Client) => (await of.listRobots({})).items.filter(({ status }) => status === "online").length;

  const state = { stopped: false, calls: 0, failed: [] as string[] };
  const callers = Array.from({ length: CALLERS }, () => callWithoutEnd(api, state));
  for (const [place, server] of servers.entries()) {
    const other = createClient({ base_url: servers[1 - place]!.url, token });
    const ready = async () => (await fetch(`${server.url}/readyz`).catch(() => undefined))?.status;
    await until(
      "some calls",
      (
        (from) => () =>
          state.calls > from + 20
      )(state.calls),
    );
    const stopped = server.program.stop();
    await until("it to say that it stops", async () => (await ready()) !== 200);
    assert.equal(await stopped, 0);
    // A server counts a robot as online before the robot has received its welcome.
    const there = async (): Promise<boolean> => (await online(other)) === ROBOTS && robots.every(({ connected }) => connected);
    await until("all robots to be on the other server, and to know it", there);
    await server.restart();
    await until("it to be ready again", async () => (await ready()) === 200);
  }
  await until(
    "some calls",
    (
      (from) => () =>
        state.calls > from + 20
    )(state.calls),
  );
  state.stopped = true;
  await Promise.all(callers);
  assert.deepEqual(state.failed, []);
  t.diagnostic(`${state.calls} calls, none failed`);
});
