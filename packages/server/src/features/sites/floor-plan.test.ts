import assert from "node:assert/strict";
import { test } from "node:test";
import type { FloorPlan, Site } from "@roamfleet/protocol/routes";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { siteRoutes } from "./index.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

test("stores, replaces and deletes the floor plan of a site", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([siteRoutes]);
  const { token } = await it.org();
  const site = (await it.call<{ data: Site }>("POST", "/api/sites", { token, body: { name: "Hall" } })).body.data;
  const path = `/api/sites/${site.id}/floor-plan`;
  const read = async () => (await it.call<{ data: FloorPlan | null }>("GET", path, { token })).body.data;
  const put = (body: object) => it.call<{ data: FloorPlan }>("PUT", path, { token, body });
  assert.equal(await read(), null);
  assert.equal((await put({ image: PNG, meters_per_pixel: 0.05 })).status, 200);
  const plan = await read();
  assert.deepEqual([plan?.content_type, plan?.image, plan?.origin_x_meters], ["image/png", PNG, 0]);
  assert.equal((await put({ image: PNG, meters_per_pixel: 0.1, origin_x_meters: -12.5 })).status, 200);
  assert.deepEqual([(await read())?.meters_per_pixel, (await read())?.origin_x_meters], [0.1, -12.5]);

  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>').toString("base64");
  assert.equal((await put({ image: svg, meters_per_pixel: 1 })).status, 400);
  assert.equal((await put({ image: PNG, meters_per_pixel: 0 })).status, 400);
  assert.equal((await put({ image: "A".repeat(940_004), meters_per_pixel: 1 })).status, 400);
  const largest = Buffer.concat([Buffer.from(PNG, "base64"), Buffer.alloc(700_000)]).toString("base64");
  assert.equal((await put({ image: largest, meters_per_pixel: 1 })).status, 200);

  const other = await it.org();
  assert.equal((await it.call("GET", path, { token: other.token })).status, 404);
  assert.equal((await it.call("DELETE", path, { token })).status, 200);
  assert.equal(await read(), null);
  assert.equal((await it.call("DELETE", path, { token })).status, 200);
});
