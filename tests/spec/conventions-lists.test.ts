import assert from "node:assert/strict";
import { test } from "node:test";
import { freshKey, type Item } from "./http.ts";
import { httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();

const org = await plane.org();
const http = httpOf(plane, org.admin_token);
const ROWS = 25;
for (let made = 1; made <= ROWS; made += 1) await http.post("/api/sites", { name: `site ${String(made).padStart(2, "0")}` });

const cursorOf = (reply: { body: Record<string, unknown> }): string => encodeURIComponent(String(reply.body.next_cursor));

async function walk(path: string, limit: number): Promise<{ items: Item[]; pages: number }> {
  const items: Item[] = [];
  let [cursor, pages] = ["", 0];
  for (;;) {
    const reply = await http.get(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}${cursor}`);
    items.push(...reply.items);
    pages += 1;
    assert.ok(reply.items.length <= limit);
    if (reply.body.next_cursor === null) return { items, pages };
    cursor = `&cursor=${cursorOf(reply)}`;
  }
}

test("a list without limit and cursor is complete and newest first", LIMIT, async () => {
  const reply = await http.get("/api/sites");
  assert.equal(reply.body.next_cursor, null);
  assert.deepEqual(
    reply.items.map(({ name }) => name),
    Array.from({ length: ROWS }, (_, i) => `site ${String(ROWS - i).padStart(2, "0")}`),
  );
});

test("pages of a list contain each row once, in the order of the whole list", LIMIT, async () => {
  const whole = (await http.get("/api/sites")).items;
  for (const limit of [1, 7, 24, 25, 26, 1_000]) {
    const { items, pages } = await walk("/api/sites", limit);
    assert.deepEqual(items, whole);
    assert.equal(pages, Math.ceil(ROWS / limit), `pages of ${limit}`);
  }
});

test("rows created between two page requests cause no repeated or skipped rows", LIMIT, async () => {
  const fresh = await plane.org();
  const own = httpOf(plane, fresh.admin_token);
  for (let i = 0; i < 6; i += 1) await own.post("/api/sites", { name: `s${i}` });
  const first = await own.get("/api/sites?limit=3");
  for (let i = 6; i < 9; i += 1) await own.post("/api/sites", { name: `s${i}` });
  const second = await own.get(`/api/sites?limit=3&cursor=${cursorOf(first)}`);
  assert.deepEqual(
    [...first.items, ...second.items].map(({ name }) => name),
    ["s5", "s4", "s3", "s2", "s1", "s0"],
  );
  assert.equal(second.body.next_cursor, null);
});

test("a list request with a cursor but without a limit returns the next page", LIMIT, async () => {
  const first = await http.get("/api/sites?limit=5");
  assert.equal((await http.get(`/api/sites?cursor=${cursorOf(first)}`)).items.length, ROWS - 5);
});

test("returns 400 for an invalid cursor or a cursor of another list, filter or org", LIMIT, async () => {
  const sites = await http.get("/api/sites?limit=5");
  assert.match((await http.get(`/api/fleets?cursor=${cursorOf(sites)}`)).refusal, /^400 bad_request: cursor/);
  assert.match((await http.get(`/api/sites?q=site&cursor=${cursorOf(sites)}`)).refusal, /^400 bad_request: cursor/);
  assert.match((await httpOf(plane).get(`/api/sites?cursor=${cursorOf(sites)}`)).refusal, /^400 bad_request: cursor/);
  for (const cursor of ["x", "W10", "bnVsbA", Buffer.from('["x","\\u0000"]').toString("base64url"), "%00", "🤖"]) {
    assert.match((await http.get(`/api/sites?cursor=${encodeURIComponent(cursor)}`)).refusal, /^400 bad_request/, cursor);
  }
});

test("list filters are named after the field and apply to all pages", LIMIT, async () => {
  const { items } = await walk("/api/sites?q=site%201", 4);
  assert.equal(items.length, 10);
  assert.ok(items.every(({ name }) => String(name).startsWith("site 1")));
});

test("robots are filtered by status, fleet, site, label and part of the name", LIMIT, async () => {
  const fleet_id = await org.fleet();
  const { site_id } = (await http.get(`/api/fleets/${fleet_id}`)).data;
  const zoned = await org.enrollRobot({ fleet_id, name: "Cart One", labels: { zone: "a:b" } });
  const away = await org.enrollRobot({ name: "Arm", online: false });
  const found = async (query: string) => (await http.get(`/api/robots?${query}`)).items.map(({ id }) => id);
  assert.deepEqual(await found("status=online"), [zoned.id]);
  assert.deepEqual(await found("status=never_connected"), [away.id]);
  assert.deepEqual(await found(`fleet_id=${fleet_id}`), [zoned.id]);
  assert.deepEqual((await found(`site_id=${String(site_id)}`)).includes(zoned.id), true);
  assert.deepEqual(await found("label=zone:a:b"), [zoned.id]);
  assert.deepEqual(await found("label=zone:a"), []);
  assert.deepEqual(await found("q=cArT"), [zoned.id]);
  assert.deepEqual(await found("q=%25"), []);
});

test("since is inclusive, until is exclusive, and both need a time zone", LIMIT, async () => {
  const robot = await org.enrollRobot();
  const release = await org.release();
  const made = (await http.post("/api/deployments", { release: release.id, robot_id: robot.id }, freshKey())).data;
  const at = encodeURIComponent(String(made.created_at));
  const later = encodeURIComponent(new Date(Date.parse(String(made.created_at)) + 1).toISOString());
  const found = async (query: string) => (await http.get(`/api/deployments?${query}`)).items.map(({ id }) => id);
  assert.deepEqual(await found(`since=${at}&until=${later}`), [made.id]);
  assert.deepEqual(await found(`until=${at}`), []);
  for (const time of ["2030-01-01T00:00:00", "2030-01-01", "tomorrow", "1893456000", "2030-13-01T00:00:00Z"]) {
    assert.match((await http.get(`/api/deployments?since=${time}`)).refusal, /^400 bad_request: .*since/, time);
  }
});

test("lists a deployment's events oldest first without gaps in their numbers", LIMIT, async () => {
  const robot = await org.enrollRobot();
  const made = await org.deploy(await org.release(), { robot_id: robot.id });
  await plane.until("its end", async () => (await http.get(`/api/deployments/${made.id}`)).data.status === "applied");
  const own = (await http.get(`/api/deployments/${made.id}/events`)).items;
  const all = (await http.get(`/api/deployments/${made.id}/events?include=targets`)).items;
  assert.deepEqual(
    all.map(({ seq }) => seq),
    all.map((_, i) => i + 1),
  );
  assert.deepEqual(
    own.map(({ kind }) => kind),
    ["deployment.queued", "deployment.in_progress", "deployment.applied"],
  );
  assert.ok(all.length > own.length && all.some(({ robot_id }) => robot_id === robot.id));
  const rest = (await http.get(`/api/deployments/${made.id}/events?include=targets&after_seq=2`)).items;
  assert.deepEqual(rest, all.slice(2));
  const paged = await walk(`/api/deployments/${made.id}/events?include=targets`, 2);
  assert.deepEqual(paged.items, all);
});

test("the latest batch of logs contains the last 200 records, oldest first", LIMIT, async () => {
  const robot = await org.enrollRobot();
  for (let i = 1; i <= 260; i += 1) robot.log(`line ${i}`);
  const items = await plane.until("all of them", async () => {
    const reply = await http.get(`/api/robots/${robot.id}/logs`);
    return reply.items.at(-1)?.message === "line 260" && reply.items;
  });
  assert.deepEqual([items.length, items[0]?.message], [200, "line 61"]);
});
