import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { PlaneState } from "../../kernel/kernel-plane.ts";
import { createLog } from "../../kernel/log.ts";
import { sql } from "../../kernel/sql.ts";
import { openNodes, type Session, writeNodeAddress } from "../../link/index.ts";
import { ingestLogs } from "../logs/index.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { createCredential } from "../tokens/index.ts";
import { createStreams } from "./index.ts";
import { FleetShares } from "./relay/fleet-share.ts";
import { decodeHeader } from "./relay/node-request.ts";
import { flush, range, startRig, TestViewer } from "./testing/rig.ts";

const LIMIT = { timeout: 120_000 };
/** Number of robots whose log batches match no filter, and of batches per robot. */
const [CROWD, FLUSHES] = [48, 20];
const ANY = { listen: { host: "127.0.0.1", port: 0 }, address: undefined };

/** Starts a node with viewers of a fleet's log, and another node whose responses the test delays. */
async function startNodes() {
  await using own = new AsyncDisposableStack();
  const it = own.use(await startRig());
  const { db, clock, log } = it.plane;
  const listen = async (id: string) => {
    await db.run(sql`insert into node (id, epoch, beat, is_over, started_at) values (${id}, 1, 1, false, ${clock.now()})`);
    const nodes = await openNodes({ db, clock, log, node: { id, epoch: 1 }, onRefused: () => {} }, ANY);
    own.defer(() => nodes.close());
    return nodes;
  };
  const [here, there] = [await listen("node_a"), await listen("node_b")];
  const asked = { count: 0, open: 0, gate: Promise.withResolvers<void>() };
  const shares = new FleetShares(it.plane);
  own.defer(() => shares.close());
  there.onUpgrade((request, socket, head) => {
    asked.count += 1;
    asked.open += 1;
    socket.once("close", () => (asked.open -= 1));
    const query = new URLSearchParams(request.url?.split("?")[1]);
    void asked.gate.promise.then(() => shares.upgrade(request, socket, head, decodeHeader(request), query));
  });
  const streams = createStreams(it.plane, here);
  const server = createServer().on("upgrade", (request, socket, head) => streams.upgrade(request, socket, head));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const viewers: TestViewer[] = [];
  own.defer(async () => {
    for (const { ws } of viewers) ws.terminate();
    await streams.drain();
    server.close();
  });
  const parts = own.move();
  return {
    ...it,
    asked,
    here,
    view(token: string, query = "") {
      const { port } = server.address() as AddressInfo;
      const viewer = new TestViewer(`ws://127.0.0.1:${port}/api/fleets/${it.fleet_id}/logs/ws?token=${token}${query}`);
      viewers.push(viewer);
      return viewer;
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

type Nodes = Awaited<ReturnType<typeof startNodes>>;

/** Creates a token that is limited to the fleet, so the robots that it may see are checked every second. */
async function tokenOfFleet({ plane, org_id, fleet_id }: Nodes): Promise<string> {
  const { secret } = await createCredential(plane.db, plane, { kind: "org", org_id, role: "viewer", scopes: [{ fleet_id }] });
  return secret;
}

/** Adds a robot to the fleet. */
async function anotherRobot({ plane, sessions, org_id, site_id, fleet_id }: Nodes): Promise<Session> {
  const { robot_id } = await seedRobot(plane, org_id, { site_id, fleet_id });
  const session = fakeSession("sess_2", org_id, helloOf(robot_id));
  sessions.set(robot_id, session);
  return session;
}

test("a fleet log requests a slow server's logs once, and omits robots that left the fleet", LIMIT, async () => {
  await using it = await startNodes();
  const { plane, rig, session, org_id, asked } = it;
  const moved = await anotherRobot(it);
  const viewer = it.view(await tokenOfFleet(it));
  await until("the other server gets the request", () => asked.count === 1);
  await rig.clock.advance({ seconds: 1 });
  // Connections are handled in order: all requests of that second arrive before this connection.
  const [to_b] = await it.here.others();
  (await it.here.connect(to_b!)).destroy();
  const { fleet_id } = await seedRobot(plane, org_id, { site_id: it.site_id });
  await plane.db.run(sql`update robot set fleet_id = ${fleet_id} where org_id = ${org_id} and id = ${moved.robot_id}`);
  await rig.clock.advance({ seconds: 1 });
  await ingestLogs(plane, moved, flush(1, 3));
  await ingestLogs(plane, session, flush(1, 3));
  asked.gate.resolve();
  await until("the robot that stayed", () => viewer.records.length >= 3);
  await ingestLogs(plane, session, flush(4, 4));
  await until("its last record", () => viewer.seqs.at(-1) === 4);
  assert.deepEqual(viewer.seqs, range(1, 4));
  assert.ok(viewer.records.every(({ robot_id }) => robot_id === session.robot_id));
  await rig.clock.advance({ seconds: 1 });
  assert.equal(asked.count, 1);
  viewer.ws.close();
  await viewer.closed;
  await until("all requests to the other server to end", () => asked.open === 0);
});

test("sends no log record twice when another server becomes reachable again", LIMIT, async () => {
  await using it = await startNodes();
  const { plane, rig, session, asked } = it;
  const [to_b] = await it.here.others();
  await writeNodeAddress(plane.db, to_b!, undefined);
  asked.gate.resolve();
  const crowd: Session[] = [];
  while (crowd.length < CROWD) crowd.push(await anotherRobot(it));
  const viewer = it.view(await tokenOfFleet(it), "&level=error");
  await viewer.headers;
  const error = { level: "error" } as const;
  await ingestLogs(plane, session, flush(1, 1, error));
  await until("the error", () => viewer.records.length === 1);
  for (let seq = 1; seq <= FLUSHES; seq += 1) await Promise.all(crowd.map((one) => ingestLogs(plane, one, flush(seq, seq))));
  // The other server stores these records, so this node gets no live batch.
  const other = await anotherRobot(it);
  await ingestLogs({ ...plane, state: new PlaneState() }, other, flush(1, 1, error));
  await writeNodeAddress(plane.db, to_b!, to_b);
  await rig.clock.advance({ seconds: 1 });
  await until("what it stored meanwhile", () => viewer.records.some(({ robot_id }) => robot_id === other.robot_id));
  assert.deepEqual(
    viewer.records.map(({ robot_id }) => robot_id),
    [session.robot_id, other.robot_id],
  );
});

test("retries reading the logs of a server that became reachable again", LIMIT, async () => {
  await using it = await startNodes();
  const { plane, rig, session, asked } = it;
  const [to_b] = await it.here.others();
  await writeNodeAddress(plane.db, to_b!, undefined);
  asked.gate.resolve();
  const viewer = it.view(await tokenOfFleet(it));
  await viewer.headers;
  await ingestLogs(plane, session, flush(1, 1));
  await until("the record of the local robot", () => viewer.records.length === 1);
  const other = await anotherRobot(it);
  await ingestLogs({ ...plane, state: new PlaneState() }, other, flush(1, 1));
  const warned: string[] = [];
  Object.assign(plane, { log: createLog({ level: "warn", fold: false, stream: { write: (line: string) => void warned.push(line) } }) });
  await plane.db.run(sql`alter table log_batch rename to log_batch_away`);
  await writeNodeAddress(plane.db, to_b!, to_b);
  const looked = { meanwhile: () => rig.clock.advance({ seconds: 1 }) };
  await until("the read to fail", () => warned.some((line) => line.includes("could not read the log of a fleet's robot")), looked);
  await plane.db.run(sql`alter table log_batch_away rename to log_batch`);
  await until("what it stored meanwhile", () => viewer.records.some(({ robot_id }) => robot_id === other.robot_id), looked);
  assert.equal(viewer.records.length, 2);
});

test("sends a log batch that is committed late before the robot's next batch", LIMIT, async () => {
  await using it = await startNodes();
  const { plane, rig, session, asked } = it;
  asked.gate.resolve();
  const late = await anotherRobot(it);
  await ingestLogs(plane, late, flush(1, 1));
  await ingestLogs(plane, session, flush(1, 1));
  const viewer = it.view(await tokenOfFleet(it));
  await until("the stored records", () => viewer.records.length === 2);
  const seqsOf = ({ robot_id }: Session): number[] => viewer.records.filter((one) => one.robot_id === robot_id).map(({ seq }) => seq);
  // Simulate the transaction of a server that is killed before it publishes the batch.
  await plane.db.transaction(async (tx) => {
    const db = Object.assign(Object.create(plane.db) as typeof plane.db, { forOrg: () => tx });
    await ingestLogs({ ...plane, state: new PlaneState(), db }, late, flush(2, 3));
    await ingestLogs(plane, session, flush(2, 3));
    await until("the other robot's records", () => seqsOf(session).length === 3);
  });
  assert.deepEqual(seqsOf(late), [1]);
  await ingestLogs({ ...plane, state: new PlaneState() }, { ...late, session_id: "sess_3" }, flush(4, 4));
  const looked = { meanwhile: () => rig.clock.advance({ seconds: 10 }) };
  await until("the late records, though the robot logs no more", () => seqsOf(late).length === 4, looked);
  await ingestLogs(plane, { ...late, session_id: "sess_4" }, flush(5, 5));
  await until("its live record", () => seqsOf(late).length === 5);
  assert.deepEqual([seqsOf(late), seqsOf(session)], [range(1, 5), range(1, 3)]);
});

test("reads a missed log batch from the database before it sends the next one", LIMIT, async () => {
  await using it = await startNodes();
  const { plane, session, asked, origin, path, token } = it;
  asked.gate.resolve();
  await ingestLogs(plane, session, flush(1, 2));
  const viewers = [it.view(await tokenOfFleet(it)), new TestViewer(`${origin}${path}?token=${token}`)];
  await until("the stored records", () => viewers.every(({ records }) => records.length === 2));
  await ingestLogs({ ...plane, state: new PlaneState() }, session, flush(3, 4));
  await ingestLogs(plane, session, flush(5, 5));
  await ingestLogs(plane, session, flush(6, 6));
  await until("all of them", () => viewers.every(({ seqs }) => seqs.at(-1) === 6));
  for (const { seqs } of viewers) assert.deepEqual(seqs, range(1, 6));
  for (const { ws } of viewers) ws.terminate();
});
