import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeChunk } from "@roamfleet/protocol/link";
import type { Page } from "playwright-core";
import { storeSamples } from "../../packages/server/src/features/metrics/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { axe, type Dashboard, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };
/** A tile of one transparent pixel. */
const TILE = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const TILES = { url: "https://tiles.example/{z}/{x}/{y}.png", origin: "https://tiles.example", attribution: "© Example maps" };

test("the map shows the last known positions of robots", LIMIT, async (t) => {
  const it = await openDashboard(t, { robots: 4, settings: { map_tiles: TILES } });
  await it.page.route("https://tiles.example/**", (route) => route.fulfill({ contentType: "image/png", body: TILE }));
  await t.test("explains how robots report positions if none does", () => empty(it));
  await t.test("shows name, status and position of a robot selected on the map or in the list", () => select(it));
  await t.test("marks an unhealthy robot, alone and in a group", () => unhealthy(it));
  await t.test("lists robots without a position", () => missing(it));
  await t.test("shows a small map on the pages of a robot and a site, which leads to the map", () => small(it));
  await t.test("shows the coordinates of a site's floor plan", () => planar(it));
  await t.test("loads tiles from the origin in the server's settings", () => tiled(it));
  await t.test("moves and zooms with keys, and with the wheel around the pointer", () => moves(it));
  await t.test("groups 5,000 robots into few markers", () => many(it));
});

let seq = 0;

/** Stores a position of a robot, some minutes old. */
async function report({ server, org }: Dashboard, robot_id: string, values: Record<string, number>, minutes = 1): Promise<void> {
  const times = [server.clock.now().getTime() - minutes * 60_000];
  const series = Object.entries(values).map(([name, value]) => ({ name: `position_${name}`, labels: {}, times, values: [value] }));
  await storeSamples(server.plane, org.id, robot_id, { outbox_id: "map", seq: (seq += 1), chunk: encodeChunk(series) });
}

const marker = (page: Page, name: string) => page.locator(`[data-marker][aria-label^="${name},"]`);
const names = async ({ org, robots }: Dashboard): Promise<string[]> => {
  const all = await Promise.all(robots.map(({ id }) => org.api.getRobot({ params: { id } })));
  return all.map(({ data }) => data.name);
};

async function empty({ page }: Dashboard): Promise<void> {
  await visit(page, "/map");
  await page.getByRole("heading", { name: "No positions yet" }).waitFor();
  await page.getByText("position_latitude_degrees").first().waitFor();
  await axe(page);
}

async function select(it: Dashboard): Promise<void> {
  const { page, robots } = it;
  await report(it, robots[0]!.id, { latitude_degrees: 51.92, longitude_degrees: 4.48, heading_degrees: 90 });
  await report(it, robots[1]!.id, { latitude_degrees: 51.93, longitude_degrees: 4.5 }, 240);
  await robots[1]!.disconnect();
  const [first = "", second = ""] = await names(it);
  await visit(page, "/map");
  await marker(page, first).click();
  const card = page.getByRole("region", { name: "Selected robot" });
  await card.getByText("51.920000°, 4.480000°").waitFor();
  await card.getByRole("link", { name: first }).waitFor();
  await card.getByText("since").waitFor();
  assert.equal(await marker(page, first).getAttribute("data-old"), null);
  assert.equal(await marker(page, second).getAttribute("data-old"), "true");
  await page.locator("[data-row]", { hasText: second }).getByText("4 h ago").click();
  await card.getByRole("link", { name: second }).waitFor();
  await axe(page);
  await card.getByRole("button", { name: "Close" }).click();
  await card.waitFor({ state: "detached" });
  await visit(page, "/map?status=offline");
  await marker(page, second).waitFor();
  assert.equal(await marker(page, second).getAttribute("data-marker"), "offline");
  assert.equal(await page.locator("[data-marker]").count(), 1);
}

async function unhealthy(it: Dashboard): Promise<void> {
  const { page, org, robots, server } = it;
  const [robot] = robots;
  robot!.sendHealth({ checks: [{ name: "lidar", status: "error", message: "no data" }] });
  const getHealth = async () => (await org.api.getRobot({ params: { id: robot!.id } })).data.health;
  await server.until("the failing check", async () => (await getHealth()) === "failing");
  const [first = ""] = await names(it);
  await visit(page, "/map");
  await page.locator("[data-marker=unhealthy]").click();
  const card = page.getByRole("region", { name: "Selected robot" });
  await card.getByText("lidar: no data").waitFor();
  await page.locator("[data-row]", { hasText: first }).getByText("unhealthy").waitFor();
  await axe(page);
  // Zooming out puts both robots into one group.
  const group = page.locator("[data-marker=group]");
  await server.until("a group", async () => {
    if ((await group.count()) === 0) await page.getByRole("button", { name: "Zoom out" }).click();
    return (await group.count()) > 0;
  });
  assert.match((await group.getAttribute("title")) ?? "", /^2 robots, 1 online, 1 unhealthy$/);
  robot!.sendHealth({ checks: [] });
  await server.until("the robot to be healthy", async () => (await getHealth()) === "ok");
}

async function missing(it: Dashboard): Promise<void> {
  const { page } = it;
  const third = (await names(it))[2] ?? "";
  await visit(page, "/map");
  await page.getByRole("button", { name: "Not on the map (2)" }).click();
  await page.locator("[data-row]", { hasText: third }).getByText("none").waitFor();
  await page.getByRole("button", { name: "On the map (2)", exact: true }).click();
}

async function small(it: Dashboard): Promise<void> {
  const { page, robots, org } = it;
  const [first = "", second = ""] = await names(it);
  await visit(page, `/robots/${robots[1]!.id}`);
  const position = page.getByRole("region", { name: "Position" });
  await position.getByText("51.930000°, 4.500000°, 4 h ago").waitFor();
  assert.equal(await marker(page, second).getAttribute("data-old"), "true");
  await axe(page);
  await position.getByRole("link", { name: "Open map" }).click();
  await page.getByRole("region", { name: "Selected robot" }).getByRole("link", { name: second }).waitFor();
  await marker(page, first).waitFor();
  const { site_id } = (await org.api.getRobot({ params: { id: robots[0]!.id } })).data;
  await visit(page, `/sites/${site_id}`);
  const map = page.getByRole("region", { name: "Map", exact: true });
  await map.getByText("2 robots. Latest position").waitFor();
  assert.equal(await map.locator("[data-marker]").count(), 2);
  await axe(page);
  await map.getByRole("link", { name: "Open map" }).click();
  await page.waitForURL(/\/map\?site_id=/);
  const answered = page.waitForResponse(/\/api\/positions\?/);
  await visit(page, `/robots/${robots[3]!.id}`);
  assert.equal((await answered).status(), 200);
  assert.equal(await position.count(), 0, "a robot that reports no position has no map");
}

async function planar(it: Dashboard): Promise<void> {
  const { page, robots } = it;
  await report(it, robots[2]!.id, { x_meters: 12.5, y_meters: -3 });
  const third = (await names(it))[2] ?? "";
  await visit(page, "/map");
  await page.getByRole("button", { name: "Floor plan" }).click();
  await marker(page, third).click();
  await page.getByText("x 12.50 m, y -3.00 m").waitFor();
  assert.equal(await page.locator("[data-marker]").count(), 1);
  await axe(page);
  await page.getByRole("button", { name: "Add floor plan" }).click();
  const dialog = page.getByRole("dialog", { name: "Floor plan" });
  await dialog.getByLabel("Image").setInputFiles({ name: "hall.png", mimeType: "image/png", buffer: TILE });
  await dialog.getByLabel("Meters per pixel").fill("40");
  await dialog.getByLabel("x of the lower left corner").fill("-5");
  await axe(page);
  await dialog.getByRole("button", { name: "Store" }).click();
  const image = page.locator("[data-map] img");
  await image.waitFor();
  const [plan, robot] = [(await image.boundingBox())!, (await marker(page, third).boundingBox())!];
  // The robot is 17.5 m from the left edge of the image, which is 40 m wide.
  assert.ok(Math.abs(robot.x + robot.width / 2 - plan.x - (plan.width * 17.5) / 40) < 1);
  await page.getByRole("button", { name: "Change floor plan" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await image.waitFor({ state: "detached" });
}

async function tiled({ page }: Dashboard): Promise<void> {
  const tile = page.waitForResponse(/^https:\/\/tiles\.example\/\d+\/\d+\/\d+\.png$/);
  await visit(page, "/map");
  assert.equal((await tile).status(), 200);
  await page.getByText("© Example maps").waitFor();
}

async function moves(it: Dashboard): Promise<void> {
  const { page } = it;
  const [first = ""] = await names(it);
  await visit(page, "/map");
  const at = async () => (await marker(page, first).boundingBox())!;
  const before = await at();
  const map = page.getByRole("group", { name: /^Map of robots/ });
  await map.press("ArrowLeft");
  assert.equal(Math.round((await at()).x - before.x), 80);
  await map.press("ArrowRight");
  await page.mouse.move(before.x + before.width / 2, before.y + before.height / 2);
  await page.mouse.wheel(0, -400);
  const after = await at();
  assert.deepEqual([Math.round(after.x - before.x), Math.round(after.y - before.y)], [0, 0]);
  await page.mouse.down();
  await page.mouse.move(before.x + 60, before.y + 60, { steps: 4 });
  await page.mouse.up();
  assert.ok((await at()).x > before.x + 20);
  assert.equal(await page.getByRole("region", { name: "Selected robot" }).count(), 0, "moving the map selects no robot");
}

async function many({ page, org, server, robots }: Dashboard): Promise<void> {
  await server.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, labels, created_at, updated_at, connected_at, last_seen_at)
    select org_id, 'rob_' || lpad(i::text, 26, '0'), 'bulk-' || i, site_id, fleet_id, sha256(convert_to('key ' || i, 'UTF8')), labels,
      created_at, updated_at, connected_at, last_seen_at
    from robot, generate_series(1, 5000) i where id = ${robots[3]!.id}`);
  await server.db.run(sql`
    insert into robot_position (org_id, robot_id, at, latitude_degrees, longitude_degrees)
    select org_id, id, ${server.clock.now()}, 51.9 + mod(hashtext(id), 1000) / 20000.0, 4.4 + mod(hashtext(name), 1000) / 20000.0
    from robot where org_id = ${org.id} and name like 'bulk-%'`);
  await visit(page, "/map");
  await page.getByRole("button", { name: "On the map (5,002)" }).waitFor();
  const count = await page.locator("[data-marker]").count();
  assert.ok(count > 20 && count < 500, `${count} markers`);
  const group = page.locator("[data-marker=group]").first();
  const text = await group.getAttribute("aria-label");
  assert.match(text ?? "", /^[\d,]+ robots, [\d,]+ online$/);
  await axe(page);
}
