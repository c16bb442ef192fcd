import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { SimulatedRobot, Swarm } from "@roamfleet/swarm/testing";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { nullable, row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import { Program } from "../processes/process.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";
import { startPlane } from "../harness/index.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 240_000 };

/** Starts two server processes on one database and one NATS, with robots connected to the first. */
async function twoNodes() {
  await using own = new AsyncDisposableStack();
  const database = await createTestDatabase();
  own.defer(() => database.drop());
  const db = await database.connect();
  const nats = own.use(await NatsServer.start());
  const env = { DATABASE_URL: databaseUrl(database.connection), ROAMFLEET_BUS_URL: nats.url(), ROAMFLEET_NODE_LISTEN: "127.0.0.1:0" };
  const first = own.use(await ServerProcess.start({ nodes: 1, env }));
  const second = own.use(await ServerProcess.start({ nodes: 1, env }));
  const { api } = await second.org("Two nodes");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id, label: "carts" }, idempotency_key: randomUUID() })).data;
  assert.ok(key !== null);
  const swarm = new Swarm({ url: first.url, reconnects: true });
  own.defer(() => swarm.stop());
  const robots = await Promise.all(["one", "two", "three"].map((name) => SimulatedRobot.enroll(swarm, { key, name })));
  for (const robot of robots) await robot.connect();
  const statuses = async () => (await api.listRobots({})).items.map(({ status }) => status);
  const allAre = (status: string) => async () => (await statuses()).every((one) => one === status);
  const nodesOf = async () =>
    (await db.many(sql(row({ node_id: nullable(text) }))`select distinct node_id from robot where decommissioned_at is null`)).map(
      ({ node_id }) => node_id,
    );
  await until("all to be online", allAre("online"));
  return { first, second, env, api, swarm, robots, allAre, nodesOf, own: own.move() };
}

test("robots of a frozen server are offline when its lease expires, and online when it resumes", OPTIONS, async () => {
  const it = await twoNodes();
  await using _ = it.own;
  const { first, second, swarm, robots } = it;
  const [before] = await it.nodesOf();
  first.program.child.kill("SIGSTOP");
  try {
    // The robots have missed only one or two heartbeats at this point, so they do not reconnect to the second server yet.
    await until("the other server to take them for offline", it.allAre("offline"));
    await second.program.until("it to say why", () => second.program.output.includes("lease of a node expired"));
    swarm.url = second.url;
  } finally {
    first.program.child.kill("SIGCONT");
  }
  await until("all to be online again", it.allAre("online"));
  const nodes = await it.nodesOf();
  assert.equal(nodes.length, 1);
  assert.notEqual(nodes[0], before, "they are the other server's");
  await first.program.until("it to say what happened", () => first.program.output.includes("the lease was renewed late"));
  await until("each robot to know it", () => robots.every(({ connected }) => connected));
  // The resumed server accepts robots again.
  swarm.url = first.url;
  await robots[0]?.close();
  await robots[0]?.connect();
  await until("one on each", async () => (await it.nodesOf()).length === 2);
});

test("a server exits and disconnects its robots if another process takes its node id", OPTIONS, async () => {
  const it = await twoNodes();
  await using _ = it.own;
  const { first, second, swarm } = it;
  swarm.url = second.url;
  const data = await mkdtemp(path.join(tmpdir(), "roamfleet-same-id-"));
  it.own.defer(() => rm(data, { recursive: true, force: true }));
  await copyFile(path.join(first.data, "node-id"), path.join(data, "node-id"));
  const twin = new Program("packages/server/src/main.ts", ["serve", "--data", data, "--listen", "127.0.0.1:0"], it.env);
  it.own.defer(async () => void (await twin.stop()));
  assert.equal((await first.program.ended).code, 1);
  assert.match(first.program.output, /another process runs under this node's id/);
  await until("all to be online", it.allAre("online"));
  assert.ok(twin.running);
  assert.equal((await it.nodesOf()).length, 1);
});

test("a server deletes exactly the node rows that ended over a day ago", { timeout: 240_000 }, async () => {
  await using plane = await startPlane({ nodes: 1 });
  await plane.db.run(sql`
    insert into node (id, epoch, beat, is_over, renewed_at, started_at)
    select id, 1, 1, is_over, now() - age, now() - interval '30 days'
    from (values ('node_gone', true, interval '25 hours'), ('node_stopped', true, interval '23 hours')) as v (id, is_over, age)`);
  const rows = async () => (await plane.db.many(sql(row({ id: text }))`select id from node order by id`)).map(({ id }) => id);
  await until("it is forgotten", async () => !(await rows()).includes("node_gone"));
  assert.deepEqual(await rows(), [plane.plane.node.id, "node_stopped"].toSorted());
});
