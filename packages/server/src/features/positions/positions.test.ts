import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeChunk, type Series } from "@roamfleet/protocol/link";
import { json, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { storeSamples } from "../metrics/index.ts";
import { positionIn } from "./position.ts";
import { listPositions } from "./store.ts";
import { positionRoutes } from "./index.ts";

const series = (name: string, times: number[], values: number[], labels: Record<string, string> = {}): Series => ({
  name: `position_${name}`,
  labels,
  times,
  values,
});

test("takes the newest pair of valid coordinates from samples in any order", () => {
  const found = positionIn([
    series("latitude_degrees", [3_000, 1_000], [51.9, 51.8], { topic: "/fix" }),
    series("longitude_degrees", [1_000, 3_000], [4.4, 4.5], { topic: "/fix" }),
    series("heading_degrees", [3_000], [-90]),
  ]);
  assert.deepEqual(found, {
    at: new Date(3_000),
    latitude_degrees: 51.9,
    longitude_degrees: 4.5,
    x_meters: null,
    y_meters: null,
    heading_degrees: 270,
  });
});

test("ignores coordinates beyond their range, without a partner, and of another time", () => {
  assert.equal(positionIn([series("latitude_degrees", [1], [91]), series("longitude_degrees", [1], [4])]), undefined);
  assert.equal(positionIn([series("latitude_degrees", [1], [Number.NaN]), series("longitude_degrees", [1], [4])]), undefined);
  assert.equal(positionIn([series("x_meters", [1], [4])]), undefined);
  assert.equal(positionIn([series("x_meters", [1], [4]), series("y_meters", [100_000], [4])]), undefined);
  const old = positionIn([
    series("x_meters", [1], [4]),
    series("y_meters", [1], [4]),
    series("latitude_degrees", [100_000], [1]),
    series("longitude_degrees", [100_000], [2]),
  ]);
  assert.deepEqual([old?.x_meters, old?.latitude_degrees], [null, 1]);
});

test("keeps the newest position of a robot, and writes at most one in 10 seconds", { timeout: 120_000 }, async () => {
  await using rig = await startFeaturePlane([positionRoutes]);
  const { plane } = rig;
  const { org_id } = await rig.org();
  const { robot_id } = await seedRobot(plane, org_id);
  await seedRobot(plane, org_id);
  const now = plane.clock.now().getTime();
  let seq = 0;
  const send = (at: number, x: number) =>
    storeSamples(plane, org_id, robot_id, {
      outbox_id: "spool-1",
      seq: (seq += 1),
      chunk: encodeChunk([series("x_meters", [at], [x]), series("y_meters", [at], [2])]),
    });
  const caller = { org_id, grants: [{ role: "viewer" as const, scopes: [] }], limit: [] } as never;
  const list = async (known?: boolean) =>
    await listPositions(plane.db.forOrg(org_id), caller, known === undefined ? {} : { known }, { after: null, limit: 10 });
  assert.equal((await list(true)).length, 0);
  await send(now - 30_000, 1);
  const x = async () => (await list(true)).map(({ x_meters }) => x_meters);
  assert.deepEqual(await x(), [1]);
  await send(now - 29_000, 2);
  assert.deepEqual(await x(), [1], "too soon after the stored one");
  await send(now - 40_000, 3);
  assert.deepEqual(await x(), [1], "older, from a spool");
  await send(now - 10_000, 4);
  assert.deepEqual(await x(), [4]);
  assert.deepEqual([(await list()).length, (await list(false)).length], [2, 1]);
  const of_robot = await listPositions(plane.db.forOrg(org_id), caller, { robot_id }, { after: null, limit: 10 });
  assert.deepEqual(
    of_robot.map(({ id, x_meters, health, failing }) => [id, x_meters, health, failing]),
    [[robot_id, 4, "unknown", []]],
  );
  await plane.db.run(sql`
    insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
    values (${org_id}, ${robot_id}, ${plane.clock.now()}, '{}', 'failing', ${json(["lidar: no data"])})`);
  assert.deepEqual(
    (await list()).map(({ health, failing }) => [health, failing]),
    [
      ["unknown", []],
      ["failing", ["lidar: no data"]],
    ],
  );
});
