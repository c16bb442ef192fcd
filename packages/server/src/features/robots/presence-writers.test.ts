import assert from "node:assert/strict";
import { test } from "node:test";
import type { Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { PlaneState } from "../../kernel/kernel-plane.ts";
import type { Plane } from "../../context.ts";
import { createTestDatabase } from "../../engines/db/testing/index.ts";
import type { Db } from "../../kernel/db.ts";
import { int, row, sql, text } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { timelineRoutes } from "../timeline/index.ts";
import { compareLinks, robotConnected, robotDisconnected, robotRoutes, sweepDeadNodes } from "./index.ts";
import { DisconnectWriter } from "./presence-writers.ts";

const TIMEOUT = { timeout: 60_000 };

const entryRow = row({ robot_id: text, kind: text, session: text, reason: text });
/** Returns timeline entries in the order of their creation. */
const entries = ({ plane }: FeaturePlane) =>
  plane.db.many(sql(entryRow)`
    select robot_id, kind, coalesce(data->>'session_id', '') as session, coalesce(data->>'reason', '') as reason from timeline_entry order by id`);
const countRow = row({ n: int });
const online = async ({ plane }: FeaturePlane): Promise<number> =>
  (await plane.db.one(sql(countRow)`select count(*)::int as n from robot where node_id is not null`)).n;

/** Inserts robots that are online with links of this node. */
async function seedOnline(it: FeaturePlane, count: number): Promise<{ org_id: string; sessions: Session[] }> {
  const { org_id } = await it.org();
  const first = await seedRobot(it.plane, org_id);
  const { id, epoch } = it.plane.node;
  await it.plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    select r.org_id, r.id || n, r.name || n, r.site_id, r.fleet_id, convert_to(r.id || n, 'UTF8'), r.created_at, r.updated_at
    from robot r, generate_series(2, ${count}) n where r.id = ${first.robot_id}`);
  const robots = await it.plane.db.many(sql(row({ id: text }))`
    update robot set node_id = ${id}, node_epoch = ${epoch}, session_id = 'sess_' || id where org_id = ${org_id} returning id`);
  return { org_id, sessions: robots.map((robot) => fakeSession(`sess_${robot.id}`, org_id, helloOf(robot.id))) };
}

/** Returns the plane with a count of its orgs' transactions. */
function counting({ plane }: FeaturePlane): { plane: Plane; transactions: () => number } {
  let count = 0;
  const forOrg = (org_id: string): Db => {
    const db = plane.db.forOrg(org_id);
    return {
      ...db,
      transaction: (work) => {
        count += 1;
        return db.transaction(work);
      },
    };
  };
  return { plane: { ...plane, db: { forOrg } as Plane["db"] }, transactions: () => count };
}

/** Returns the plane with a database that `lose` makes unreachable. */
async function losing(it: FeaturePlane): Promise<{ plane: Plane; lose: (is_lost: boolean) => void; warnings: string[] } & AsyncDisposable> {
  const other = await createTestDatabase({ empty: true });
  const closed = await other.connect();
  await closed.close();
  let is_lost = false;
  const warnings: string[] = [];
  const say = (_fields: unknown, message: string): void => void warnings.push(message);
  const plane: Plane = {
    ...it.plane,
    state: new PlaneState(),
    log: { ...it.plane.log, warn: say, error: say } as unknown as Plane["log"],
    get db() {
      return is_lost ? closed : it.plane.db;
    },
  };
  return { plane, lose: (lost) => void (is_lost = lost), warnings, [Symbol.asyncDispose]: () => other.drop() };
}

const always = (): boolean => true;

test("writes 2,000 concurrent disconnects of one org in three transactions", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { sessions } = await seedOnline(it, 2_000);
  const { plane, transactions } = counting(it);
  const writer = new DisconnectWriter(plane);
  await Promise.all(sessions.map((session) => writer.record({ session, reason: "cut", isNewest: always })));
  assert.equal(transactions(), 3);
  assert.equal(await online(it), 0);
  assert.deepEqual(
    (await entries(it)).map(({ robot_id, kind, session, reason }) => [robot_id, kind, session, reason].join(" ")).toSorted(),
    sessions.map(({ robot_id, session_id }) => `${robot_id} robot.disconnected ${session_id} cut`).toSorted(),
  );
});

test("writes disconnects in batches per org, without delaying other orgs", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const orgs = [
    await seedOnline(it, 3),
    await seedOnline(it, 3),
    await seedOnline(it, 3),
    await seedOnline(it, 3),
    await seedOnline(it, 3),
  ];
  const { plane, transactions } = counting(it);
  const writer = new DisconnectWriter(plane);
  const all = orgs.flatMap(({ sessions }) => sessions);
  await Promise.all(all.map((session) => writer.record({ session, reason: "cut", isNewest: always })));
  // The disconnects of the first three orgs start immediately with one robot each. Each org's other robots are written in one batch.
  assert.equal(transactions(), 3 * 2 + 2);
  assert.deepEqual([await online(it), (await entries(it)).length], [0, 15]);
});

test("a disconnect that cannot be written fails without affecting others of its batch", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { sessions } = await seedOnline(it, 20);
  const writer = new DisconnectWriter(it.plane);
  const ended = await Promise.allSettled(
    sessions.map((session, n) => writer.record({ session, reason: n === 7 ? "what PostgreSQL refuses: \0" : "cut", isNewest: always })),
  );
  assert.deepEqual(
    ended.flatMap(({ status }, n) => (status === "rejected" ? [n] : [])),
    [7],
  );
  assert.deepEqual([await online(it), (await entries(it)).length], [1, 19]);
});

test("disconnects wait while the database is unreachable, and are written once when it is back", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { sessions } = await seedOnline(it, 50);
  await using db = await losing(it);
  const writer = new DisconnectWriter(db.plane);
  db.lose(true);
  let done = 0;
  const newer = new Set<Session>();
  const recorded = sessions.map((session) =>
    writer.record({ session, reason: "cut", isNewest: () => !newer.has(session) }).then(() => (done += 1)),
  );
  await it.clock.advance({ seconds: 7 });
  assert.deepEqual([done, await online(it), db.warnings], [0, 50, []]);
  // A newer link of this robot connected in between, so the robot stays online.
  newer.add(sessions[3] as Session);
  db.lose(false);
  await it.clock.advance({ seconds: 1 });
  await Promise.all(recorded);
  assert.deepEqual([await online(it), (await entries(it)).length, db.warnings], [1, 49, []]);
});

test("logs one warning for a long database outage, and a sweep then marks robots offline", TIMEOUT, async () => {
  const sessions = new Map<string, Session>();
  await using it = await startFeaturePlane([], { sessions });
  await using db = await losing(it);
  const { org_id } = await it.org();
  const { robot_id, ...place } = await seedRobot(it.plane, org_id);
  const stays = await seedRobot(it.plane, org_id, place);
  const [link, other] = [robot_id, stays.robot_id].map((id) => fakeSession(`sess_${id}`, org_id, helloOf(id)));
  assert.ok(link && other);
  for (const session of [link, other]) {
    sessions.set(session.robot_id, session);
    await robotConnected(db.plane, session);
  }
  db.lose(true);
  sessions.delete(robot_id);
  const going = robotDisconnected(db.plane, link, "cut");
  await it.clock.advance({ seconds: 8 });
  assert.deepEqual(db.warnings, []);
  await it.clock.advance({ seconds: 3 });
  await going;
  assert.equal(db.warnings.length, 1);
  assert.equal(await online(it), 2);
  db.lose(false);
  await compareLinks(db.plane);
  await compareLinks(db.plane);
  assert.equal(await online(it), 1);
  assert.deepEqual(
    (await entries(it)).slice(2).map((entry) => [entry.robot_id, entry.kind, entry.reason]),
    [[robot_id, "robot.disconnected", "connection lost"]],
  );
  // Another node does the same after this node is declared dead.
  await sweepDeadNodes({ ...it.plane, node: { id: "node_b", epoch: 1 } });
  assert.equal(await online(it), 0);
});

test("keeps the newer link of a robot that reconnects while the database is unreachable", TIMEOUT, async () => {
  const sessions = new Map<string, Session>();
  await using it = await startFeaturePlane([], { sessions });
  await using db = await losing(it);
  const { org_id } = await it.org();
  const { robot_id } = await seedRobot(it.plane, org_id);
  const [older, newer] = ["sess_1", "sess_2"].map((name) => fakeSession(name, org_id, helloOf(robot_id)));
  assert.ok(older && newer);
  await robotConnected(db.plane, older);
  db.lose(true);
  const gone = robotDisconnected(db.plane, older, "cut");
  await it.clock.advance({ seconds: 2 });
  sessions.set(robot_id, newer);
  const come = robotConnected(db.plane, newer);
  db.lose(false);
  await it.clock.advance({ seconds: 1 });
  await Promise.all([gone, come]);
  assert.deepEqual(
    (await entries(it)).map(({ kind, session }) => [kind, session]),
    [
      ["robot.connected", "sess_1"],
      ["robot.connected", "sess_2"],
    ],
  );
  assert.equal(await online(it), 1);
});

const ROBOTS = 20;

test("robots that connect concurrently are written with the correct data and timeline entries", TIMEOUT, async () => {
  const it = await startFeaturePlane([robotRoutes, timelineRoutes]);
  await using _ = it;
  const { org_id, token } = await it.org();
  const first = await seedRobot(it.plane, org_id);
  const ids = [first.robot_id];
  for (let i = 1; i < ROBOTS; i += 1) ids.push((await seedRobot(it.plane, org_id, first)).robot_id);
  const [removed = "", ...others] = ids.toReversed();
  await it.plane.db.run(sql`update robot set decommissioned_at = ${it.clock.now()} where org_id = ${org_id} and id = ${removed}`);
  const sessions = ids.map((id, i) =>
    fakeSession(
      `sess_${i}`,
      org_id,
      helloOf(id, { agent_version: `1.${i}`, platform: { os: `os "${i}", {}`, arch: "x64", hostname: "h", kernel: "0" } }),
    ),
  );
  await Promise.all(sessions.map((session) => robotConnected(it.plane, session)));
  for (const [i, id] of ids.entries()) {
    const robot = (await it.call<{ data: Robot }>("GET", `/api/robots/${id}`, { token })).body.data;
    const { items } = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${id}/timeline`, { token })).body;
    if (id === removed) {
      assert.deepEqual([items.length, sessions[i]?.closed?.code], [0, 4404]);
      continue;
    }
    assert.deepEqual([robot.status, robot.agent_version, robot.platform?.os], ["online", `1.${i}`, `os "${i}", {}`]);
    assert.deepEqual(
      items.map(({ kind, data }) => [kind, data.session_id]),
      [["robot.connected", `sess_${i}`]],
    );
  }
  assert.equal(others.length, ROBOTS - 1);
});

test("reports a duplicate identity only for the robot whose earlier agent run reconnects", TIMEOUT, async () => {
  const it = await startFeaturePlane([robotRoutes, timelineRoutes]);
  await using _ = it;
  const { org_id, token } = await it.org();
  const place = await seedRobot(it.plane, org_id);
  const ids = [place.robot_id, (await seedRobot(it.plane, org_id, place)).robot_id, (await seedRobot(it.plane, org_id, place)).robot_id];
  const come = (runs: readonly string[], round: number) =>
    Promise.all(
      ids.map((id, i) => robotConnected(it.plane, fakeSession(`sess_${round}_${i}`, org_id, helloOf(id, { run_id: runs[i] ?? "run" })))),
    );
  await come(["a", "a", "a"], 1);
  await come(["b", "b", "a"], 2);
  await come(["a", "c", "a"], 3);
  const told = await Promise.all(
    ids.map(async (id) => {
      const { items } = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${id}/timeline`, { token })).body;
      return items.filter(({ kind }) => kind === "robot.duplicate_identity").length;
    }),
  );
  assert.deepEqual(told, [2, 0, 0]);
});
