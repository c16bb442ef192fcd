import assert from "node:assert/strict";
import { test } from "node:test";
import { cluster, fit, pan, tiles, zoom } from "./camera.ts";
import { FLOOR_PLAN, GEOGRAPHIC, roundStep } from "./frames.ts";

const at = (latitude_degrees: number, longitude_degrees: number) => ({
  at: "2026-01-01T00:00:00Z",
  latitude_degrees,
  longitude_degrees,
  x_meters: null,
  y_meters: null,
  heading_degrees: null,
});
const SIZE = { width: 800, height: 600 };

test("projects as Web Mercator, with the equator and Greenwich in the middle", () => {
  assert.deepEqual(GEOGRAPHIC.project(at(0, 0)), { x: 0.5, y: 0.5 });
  const rotterdam = GEOGRAPHIC.project(at(51.92, 4.48))!;
  // The tile 10/524/338 of OpenStreetMap shows Rotterdam.
  assert.deepEqual([Math.floor(rotterdam.x * 1_024), Math.floor(rotterdam.y * 1_024)], [524, 338]);
  assert.equal(GEOGRAPHIC.project(at(90, 180))!.x, 1);
  assert.ok(Math.abs(GEOGRAPHIC.project(at(90, 180))!.y) < 1e-9);
  assert.equal(FLOOR_PLAN.project(at(1, 2)), undefined);
});

test("the first view contains all points, or 40 m around a single point, and has a finite scale without points", () => {
  const points = [
    { x: 0, y: 0 },
    { x: 70, y: -10 },
  ];
  const camera = fit(points, FLOOR_PLAN, SIZE);
  assert.deepEqual([camera.x, camera.y], [35, -5]);
  for (const { x } of points) assert.ok(Math.abs(x - camera.x) * camera.scale <= SIZE.width / 2);
  assert.ok(Math.abs(fit([{ x: 3, y: 4 }], FLOOR_PLAN, SIZE).scale - 16) < 0.01);
  const hall = [
    { x: 0, y: -14 },
    { x: 24, y: 0 },
  ];
  const { scale } = fit(hall, FLOOR_PLAN, { width: 570, height: 174 });
  assert.ok(Math.abs(14 * scale - 116) < 0.01, "points fill two thirds of the height of a small map");
  for (const frame of [FLOOR_PLAN, GEOGRAPHIC]) assert.ok(Number.isFinite(fit([], frame, SIZE).scale));
});

test("zooms around a point within bounds, and moves by pixels", () => {
  const camera = { x: 10, y: 10, scale: 2 };
  const pointer = { x: 100, y: -50 };
  const near = zoom(camera, FLOOR_PLAN, 2, pointer);
  assert.equal(near.x + pointer.x / near.scale, camera.x + pointer.x / camera.scale);
  assert.equal(zoom(camera, FLOOR_PLAN, 1e9).scale, FLOOR_PLAN.scale_max);
  assert.deepEqual(pan(camera, { x: 20, y: 0 }), { x: 0, y: 10, scale: 2 });
});

test("puts points of one cell into one cluster, without losing one", () => {
  const points = Array.from({ length: 5_000 }, (_, i) => ({ x: (i * 37) % 1_000, y: (i * 91) % 700 }));
  const found = cluster(points, 44);
  assert.equal(
    found.reduce((sum, { items }) => sum + items.length, 0),
    5_000,
  );
  assert.ok(found.length <= 23 * 16);
});

test("lists the visible tiles of the level that fits the zoom", () => {
  const shown = tiles("https://tiles.example/{z}/{x}/{y}.png", { x: 0.5, y: 0.5, scale: 256 * 4 }, { width: 256, height: 256 });
  assert.deepEqual(
    shown.map(({ url }) => url),
    [
      "https://tiles.example/2/1/1.png",
      "https://tiles.example/2/2/1.png",
      "https://tiles.example/2/1/2.png",
      "https://tiles.example/2/2/2.png",
    ],
  );
});

test("draws grid lines at round values", () => {
  assert.deepEqual([0.3, 1, 3, 7].map(roundStep), [0.5, 1, 5, 10]);
  assert.deepEqual(
    FLOOR_PLAN.grid({ x: -5, y: -12 }, { x: 25, y: 3 }, 3).y.map(({ label }) => label),
    ["0 m", "10 m"],
  );
});
