import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { HealthBody } from "@roamfleet/protocol/link";
import type { HealthPoint } from "@roamfleet/protocol/routes";
import type { Session } from "../../link/index.ts";
import { int, row, sql, text } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { addPoint, flush, unwrittenPoints } from "./history.ts";
import { healthRoutes, ingestHealth, startHealthHistory } from "./index.ts";
import { pack } from "./point.ts";
import { insertBatches } from "./store.ts";
import { healthOf } from "./testing/health-of.ts";

const TIMEOUT = { timeout: 120_000 };
const countRow = row({ n: int });

async function start() {
  const rig = await startFeaturePlane([healthRoutes]);
  const { org_id, token } = await rig.org({ role: "viewer" });
  const { robot_id } = await seedRobot(rig.plane, org_id);
  const session = { org_id, robot_id } as Session;
  const history = await startHealthHistory(rig.plane);
  let uptime = 100;
  return {
    rig,
    history,
    robot_id,
    take: (more: Partial<HealthBody> = {}) =>
      ingestHealth(rig.plane, session, { type: "health", snapshot: healthOf({ uptime_seconds: (uptime += 1), ...more }) }),
    read: async (query = "", as = token) =>
      await rig.call<{ items: HealthPoint[]; error: { message: string } }>("GET", `/api/robots/${robot_id}/health/history${query}`, {
        token: as,
      }),
    rows: async () => (await rig.plane.db.one(sql(countRow)`select count(*)::int as n from health_history`)).n,
    [Symbol.asyncDispose]: async () => {
      await history.stop();
      await rig[Symbol.asyncDispose]();
    },
  };
}

test("records a health point per minute in batches of ten, and also returns unwritten points", TIMEOUT, async () => {
  await using of = await start();
  for (let sent = 0; sent < 48; sent += 1) {
    await of.take({ cpu: { percent: sent, load_1m: 1, cores: 4, temperature_celsius: 40 } });
    await of.rig.clock.advance({ seconds: 15 });
  }
  // In twelve minutes: ten points are written as one row, the later points are in memory, and the latest snapshot is one more point.
  assert.equal(await of.rows(), 1);
  const { status, body } = await of.read();
  assert.equal(status, 200);
  assert.deepEqual(
    body.items.map(({ at, cpu_percent }) => [at.slice(14, 19), cpu_percent]),
    [...Array.from({ length: 12 }, (_, minute) => [`${String(minute).padStart(2, "0")}:00`, minute * 4]), ["11:45", 47]],
  );
  assert.equal(body.items[0]?.temperature_celsius, 40);
});

test("writes buffered health points when the server stops", TIMEOUT, async () => {
  await using of = await start();
  await of.take();
  await of.rig.clock.advance({ minutes: 1 });
  await of.take();
  await of.history.stop();
  assert.equal(await of.rows(), 1);
  assert.equal((await of.read()).body.items.length, 2);
});

test("keeps the points added since a write that was committed but reported an error", TIMEOUT, async () => {
  await using of = await start();
  const { plane, clock } = of.rig;
  const first_at = clock.now();
  await of.take();
  const [point] = unwrittenPoints(plane, of.robot_id);
  assert.ok(point);
  const { org_id } = await plane.db.one(sql(row({ org_id: text }))`select org_id from robot where id = ${of.robot_id}`);
  await insertBatches(plane.db, [{ org_id, robot_id: of.robot_id, first_at, last_at: first_at, points: pack([point]) }]);
  for (let minute = 0; minute < 11; minute += 1) {
    await clock.advance({ minutes: 1 });
    await of.take();
  }
  await of.history.stop();
  assert.equal((await of.read()).body.items.length, 12);
});

for (const during of [55, 60])
  test(`keeps ${during} points that arrive during a write`, TIMEOUT, async () => {
    await using of = await start();
    const { plane, clock } = of.rig;
    const { org_id } = await plane.db.one(sql(row({ org_id: text }))`select org_id from robot where id = ${of.robot_id}`);
    const start_ms = clock.now().getTime();
    const at = (minute: number): Date => new Date(start_ms + minute * 60_000);
    const add = (from: number, to: number): void => {
      for (let minute = from; minute < to; minute += 1) addPoint(plane, org_id, of.robot_id, healthOf(), at(minute));
    };
    add(0, 10);
    const written = flush(plane, at(0));
    // Memory has room for 60 points. These points therefore replace points of the batch that is being written.
    add(10, 10 + during);
    await written;
    assert.deepEqual(
      unwrittenPoints(plane, of.robot_id).map((point) => point.at),
      Array.from({ length: during }, (_, n) => at(10 + n)),
    );
  });

test("averages the health history over long times, down to the requested number of points", TIMEOUT, async () => {
  await using of = await start();
  const disk = (mount: string, used_bytes: number) => ({ mount, used_bytes, total_bytes: 200 });
  for (let minute = 0; minute < 30; minute += 1) {
    await of.take({ disks: minute < 10 ? [disk("/", 100)] : [disk("/", 100), disk("/data", 2 * minute)] });
    await of.rig.clock.advance({ minutes: 1 });
  }
  const { items } = (await of.read("?since=2030-01-01T00:00:00Z&until=2030-01-01T00:30:00Z&points=3")).body;
  assert.deepEqual(
    items.map(({ at, disks }) => [at.slice(14, 16), disks]),
    [
      ["00", [{ mount: "/", percent: 50 }]],
      [
        "10",
        [
          { mount: "/", percent: 50 },
          { mount: "/data", percent: 14.5 },
        ],
      ],
      [
        "20",
        [
          { mount: "/", percent: 50 },
          { mount: "/data", percent: 24.5 },
        ],
      ],
    ],
  );
});

test("deletes the health history of days past the retention time", TIMEOUT, async () => {
  await using of = await start();
  await of.take();
  await of.rig.clock.advance({ minutes: 12 });
  assert.equal(await of.rows(), 1);
  await of.rig.clock.advance({ hours: 7 * 24 });
  assert.equal(await of.rows(), 1);
  await of.rig.clock.advance({ hours: 24 });
  await until("the day to be dropped", async () => (await of.rows()) === 0, { meanwhile: () => of.rig.clock.advance({ hours: 1 }) });
});

test("returns 400 for an invalid time range of the history, and 404 for another org's robot", TIMEOUT, async () => {
  await using of = await start();
  assert.equal((await of.read("?since=2030-01-02T00:00:00Z&until=2030-01-01T00:00:00Z")).status, 400);
  assert.equal((await of.read("?since=2029-01-01T00:00:00Z")).status, 400);
  assert.deepEqual((await of.read()).body.items, []);
  assert.equal((await of.read("", (await of.rig.org()).token)).status, 404);
});
