import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeChunk } from "@roamfleet/protocol/link";
import { storeSamples } from "../../packages/server/src/features/metrics/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { rollUpDue } from "../../packages/server/src/features/metrics/roll-up.ts";
import { assertFits, axe, NO_BROWSER, openDashboard, settled, visit } from "../harness/browser.ts";
import type { Harness } from "../harness/index.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };
const MINUTE_MS = 60_000;
const SAMPLE_MS = 10_000;

/** Stores samples of the last hour, with a gap of ten minutes in its middle. */
async function store({ plane, default_org, clock }: Harness, robot_id: string, level: number): Promise<void> {
  const now = clock.now().getTime();
  const times = Array.from({ length: 360 }, (_, i) => now - 60 * MINUTE_MS + i * SAMPLE_MS).filter((_, i) => i < 150 || i >= 210);
  const series = (name: string, valueAt: (second: number) => number, labels: Record<string, string> = {}) => ({
    name,
    labels,
    times,
    values: times.map((time) => valueAt((time - now) / 1_000 + 3_600)),
  });
  const chunk = encodeChunk([
    series("cpu_percent", () => level),
    series("picks_total", (second) => 2 * second, { app: "picker" }),
    series("plan_seconds_bucket", (second) => 3 * second, { app: "picker", le: "0.5" }),
    series("plan_seconds_count", (second) => 5 * second, { app: "picker" }),
    series("battery_volts", () => 24 + level / 100),
  ]);
  await storeSamples(plane, default_org.id, robot_id, { outbox_id: "spool", seq: 1, chunk });
}

const urlOf = (panels: object[], search: Record<string, string> = {}): string =>
  `/explore?${new URLSearchParams({ panels: JSON.stringify(panels), ...search }).toString()}`;

test("explores metrics of many robots in the browser", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org, server } = it;
  const fleet_id = await org.fleet({ name: "Carts" });
  const other_fleet = await org.fleet({ name: "Arms" });

  const values = (name: string) => page.getByRole("region", { name: `Values of ${name}` });
  const panels = (): Record<string, unknown>[] => JSON.parse(new URL(page.url()).searchParams.get("panels") ?? "[]") as never;

  await t.test("explains how to send metrics while the org has none", async () => {
    await visit(page, "/");
    await page.getByRole("link", { name: "Metrics" }).click();
    await page.getByText("No metrics yet").waitFor();
    await axe(page);
  });

  const [first, second] = await Promise.all(["cart-1", "cart-2"].map((name) => org.enrollRobot({ fleet_id, name })));
  const arm = await org.enrollRobot({ fleet_id: other_fleet, name: "arm-1" });
  for (const [robot, level] of [
    [first, 20],
    [second, 40],
    [arm, 90],
  ] as const)
    await store(server, robot!.id, level);
  await rollUpDue(server.plane);

  await t.test("chooses a metric, a scope and groups, and keeps them in the URL", async () => {
    await visit(page, "/explore");
    // The mean of 20, 40 and 90.
    await values("cpu_percent, %")
      .getByRole("row", { name: /all robots 50%/ })
      .waitFor();
    await page.getByLabel("Group by").selectOption("robot");
    await values("cpu_percent, %")
      .getByRole("row", { name: /arm-1 90%/ })
      .waitFor();
    await page.getByLabel("Scope").selectOption("fleet");
    await page.getByRole("combobox", { name: "Fleet" }).click();
    await page.getByRole("option", { name: "Carts" }).click();
    await values("cpu_percent, %").getByRole("row", { name: /arm-1/ }).waitFor({ state: "detached" });
    await page.getByLabel("Group by").selectOption("fleet");
    await page.getByLabel("Aggregation").selectOption("sum");
    await values("cpu_percent, %")
      .getByRole("row", { name: /Carts 60%/ })
      .waitFor();
    assert.deepEqual(panels(), [{ fleet_id, group_by: "fleet", aggregation: "sum" }]);
    await page.reload();
    await values("cpu_percent, %")
      .getByRole("row", { name: /Carts 60%/ })
      .waitFor();
    await page.getByLabel("Aggregation").selectOption("count");
    await values("cpu_percent, robots")
      .getByRole("row", { name: /Carts 2 robots/ })
      .waitFor();
  });

  await t.test("shows counters as increase per second", async () => {
    await page.getByRole("combobox", { name: "Metric" }).fill("picks");
    await page.getByRole("option", { name: "picks_total" }).click();
    await page.getByLabel("Aggregation").selectOption("avg");
    await page.getByText(/, per second$/).waitFor();
    await values("picks_total, /s")
      .getByRole("row", { name: /Carts 2\/s/ })
      .waitFor();
    // The name alone does not prove it: the robots also send the buckets of this histogram.
    await page.getByRole("combobox", { name: "Metric" }).fill("plan_seconds_count");
    await page.getByRole("option", { name: "plan_seconds_count" }).click();
    await values("plan_seconds_count, /s")
      .getByRole("row", { name: /Carts 5\/s/ })
      .waitFor();
    await page.getByText(/, per second$/).waitFor();
  });

  await t.test("isolates a line of the legend and sorts it", async () => {
    await visit(page, urlOf([{ name: "cpu_percent", group_by: "robot" }]));
    const legend = values("cpu_percent, %");
    const names = async () => (await legend.getByRole("rowheader").allInnerTexts()).join();
    await legend.getByRole("row", { name: /arm-1/ }).waitFor();
    assert.equal(await names(), "arm-1,cart-2,cart-1");
    await legend.getByRole("button", { name: "Name" }).click();
    await legend.getByRole("columnheader", { name: "Name" }).and(page.locator("[aria-sort=ascending]")).waitFor();
    assert.equal(await names(), "arm-1,cart-1,cart-2");
    await legend.getByRole("button", { name: "cart-1" }).click();
    await legend.getByRole("button", { name: "cart-1", pressed: true }).waitFor();
    assert.deepEqual(panels(), [{ name: "cpu_percent", group_by: "robot", sort: "name", only: first!.id }]);
    await axe(page);
  });

  await t.test("reads a point with the keyboard and opens the logs and the timeline of that robot at that time", async () => {
    const chart = page.getByRole("slider", { name: "cpu_percent, %: time" });
    await chart.focus();
    await page.keyboard.press("Home");
    await chart.and(page.locator("[aria-valuenow='0']")).waitFor();
    for (const key of ["ArrowRight", "ArrowRight", "ArrowDown"]) await page.keyboard.press(key);
    await chart.and(page.locator("[aria-valuenow='2'][aria-valuetext$='cart-1 20%']")).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Timeline of that day" }).waitFor();
    await axe(page);
    await page.getByRole("link", { name: "Logs at that time" }).click();
    await page.waitForURL(new RegExp(`/robots/${first!.id}/logs\\?since=.*until=`));
    await page.goBack();
  });

  await t.test("zooms into a period by dragging, and back again", async () => {
    const chart = page.getByRole("slider", { name: "cpu_percent, %: time" });
    await chart.locator("canvas").waitFor();
    const box = (await chart.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.8, box.y + 80);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.95, box.y + 80, { steps: 4 });
    await page.mouse.up();
    await page.getByText("Fixed period").waitFor();
    const { searchParams } = new URL(page.url());
    const span = Date.parse(searchParams.get("to")!) - Date.parse(searchParams.get("from")!);
    assert.ok(span > 5 * MINUTE_MS && span < 15 * MINUTE_MS, `${span} ms`);
    await page.goBack();
    await page.getByText("Refreshed every 30 s").waitFor();
    await chart.focus();
    await page.keyboard.press("+");
    await page.getByText("Fixed period").waitFor();
    await page.getByRole("button", { name: "Show the last hour" }).click();
    await page.getByText("Refreshed every 30 s").waitFor();
  });

  await t.test("adds, duplicates and removes panels, up to the maximum", async () => {
    await page.getByRole("button", { name: "Add panel" }).click();
    await page.getByRole("slider").nth(1).waitFor();
    await page.getByRole("button", { name: "Actions for cpu_percent" }).first().click();
    await page.getByRole("menuitem", { name: "Duplicate" }).click();
    await page.getByRole("slider").nth(2).waitFor();
    for (let count = 4; count <= 8; count += 1) {
      await page.getByRole("button", { name: "Add panel" }).click();
      await page
        .getByRole("slider")
        .nth(count - 1)
        .waitFor();
    }
    assert.equal(await page.getByRole("button", { name: "Add panel" }).isDisabled(), true);
    await page.getByRole("button", { name: "Actions for cpu_percent" }).first().click();
    await page.getByRole("menuitem", { name: "Remove" }).click();
    await page.getByRole("slider").nth(7).waitFor({ state: "detached" });
    await axe(page);
  });

  await t.test("copies a link with the period that is shown", async () => {
    await visit(page, urlOf([{ name: "battery_volts", group_by: "robot" }], { range: "6h" }));
    await page.getByRole("slider").waitFor();
    await page.evaluate(
      "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text } } })",
    );
    await page.getByRole("button", { name: "Copy link" }).click();
    await page.getByText("Link copied").waitFor();
    const link = new URL(await page.evaluate<string>("window.copied"));
    assert.equal(Date.parse(link.searchParams.get("to")!) - Date.parse(link.searchParams.get("from")!), 6 * 60 * MINUTE_MS);
    await visit(page, `${link.pathname}${link.search}`);
    await values("battery_volts")
      .getByRole("row", { name: /cart-2 24.4/ })
      .waitFor();
    await page.getByText("Fixed period").waitFor();
  });

  await t.test("marks deployments and open incidents of the scope", async () => {
    await org.api.updateAlertRule({ params: { id: await org.defaultRule("robot_offline") }, body: { for_seconds: 0 } });
    await second!.disconnect();
    await server.until("an incident", async () => (await org.api.listIncidents({})).items.length > 0);
    await visit(page, urlOf([{ name: "cpu_percent", fleet_id }]));
    await page.getByText("Marked: 1 event").click();
    await page.getByRole("link", { name: /^Incident: / }).click();
    await page.waitForURL(/\/incidents\/inc_/);
  });

  await t.test("marks the deployments of a site among many others of the period, and states when there are more", async () => {
    const site_id = (await org.api.getFleet({ params: { id: fleet_id } })).data.site_id;
    const release = await org.release({ tag: "9.1.0" });
    await org.deploy(release, { target_selector: { site_id, fleet_id } });
    const { id } = await org.deploy(release, { robot_id: second!.id });
    await org.api.cancelDeployment({ params: { id } });
    const copy = (first: number, last: number) =>
      server.db.run(sql`
        insert into deployment select (jsonb_populate_record(d, jsonb_build_object('id', 'dep_z' || lpad(i::text, 25, '0')))).*
        from deployment d, generate_series(${first}::int, ${last}::int) i where d.id = ${id}`);
    await copy(1, 50);
    await visit(page, urlOf([{ name: "cpu_percent", site_id }]));
    await page.getByText("Marked: 2 events", { exact: true }).click();
    await page.getByRole("link", { name: "Deployment of 9.1.0" }).waitFor();
    await copy(51, 200);
    await visit(page, urlOf([{ name: "cpu_percent" }]));
    await page.getByText("Marked: 201 events. Only the newest 200 deployments").click();
    await axe(page);
  });

  await t.test("compares two robots from the Metrics tab of one", async () => {
    await visit(page, `/robots/${first!.id}/metrics`);
    await page.getByRole("button", { name: "Compare…" }).click();
    await page.getByRole("combobox", { name: "Robot" }).fill("arm-1");
    await page.getByRole("option", { name: "arm-1" }).click();
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.waitForURL(/\/explore/);
    await values("cpu_percent, %")
      .getByRole("row", { name: /arm-1 90%/ })
      .waitFor();
    await values("cpu_percent, %")
      .getByRole("row", { name: /cart-1 20%/ })
      .waitFor();
    await page.getByRole("button", { name: "Remove arm-1" }).first().waitFor();
    await axe(page);
  });

  await t.test("opens the metrics of a fleet and of a site", async () => {
    await visit(page, `/fleets/${fleet_id}`);
    await page.getByRole("main").getByRole("link", { name: "Metrics" }).click();
    await values("cpu_percent, %")
      .getByRole("row", { name: /cart-1/ })
      .waitFor();
    assert.deepEqual(panels(), [{ fleet_id, group_by: "robot" }]);
  });

  await t.test("opens the form of an alert rule with the metric and the scope", async () => {
    await page.getByRole("button", { name: "Actions for cpu_percent" }).click();
    await page.getByRole("menuitem", { name: "Create alert rule…" }).click();
    const dialog = page.getByRole("dialog");
    assert.equal(await dialog.getByLabel("Metric").inputValue(), "cpu_percent");
    await dialog.getByLabel("Name").fill("Hot carts");
    await dialog.getByLabel("Limit").fill("95");
    await dialog.getByRole("button", { name: "Create rule" }).click();
    const row = page.locator("[data-row]", { hasText: "Hot carts" });
    await row.getByText("mean of cpu_percent").waitFor();
    await row.getByText("Carts", { exact: true }).waitFor();
    assert.equal(new URL(page.url()).search, "");
  });

  await t.test("states that there are no samples", async () => {
    await visit(page, urlOf([{ name: "no_such_metric" }]));
    await page.getByText("No samples in this period").waitFor();
    await axe(page);
  });

  await t.test("a viewer sees the page without changes, and it fits a narrow screen", async () => {
    const viewer = await it.as("viewer", { width: 390, height: 844, theme: "dark" });
    await visit(
      viewer,
      urlOf([
        { name: "cpu_percent", group_by: "robot" },
        { name: "picks_total", robot_id: [first!.id, arm.id], group_by: "robot" },
      ]),
    );
    await viewer.getByRole("slider").nth(1).waitFor();
    await settled(viewer);
    await axe(viewer);
    await assertFits(viewer);
    await viewer.getByRole("button", { name: "Actions for cpu_percent" }).click();
    await viewer.getByRole("menuitem", { name: "Duplicate" }).waitFor();
    assert.equal(await viewer.getByRole("menuitem", { name: /alert rule/ }).count(), 0);
  });

  await t.test("states that newer samples are missing while the server does not respond", async () => {
    await visit(page, urlOf([{ name: "cpu_percent", group_by: "robot" }]));
    await values("cpu_percent, %")
      .getByRole("row", { name: /cart-1 20%/ })
      .waitFor();
    // A server that stops or starts answers 503.
    it.allow(/ERR_CONNECTION_REFUSED|was answered 503|status of 503/);
    await server.stop();
    await page.getByText(/^The server has not responded since .* Newer samples are missing\.$/).waitFor();
    await values("cpu_percent, %")
      .getByRole("row", { name: /cart-1 20%/ })
      .waitFor();
    await axe(page);
    await server.restart();
    await page.getByText("Newer samples are missing").waitFor({ state: "detached" });
  });

  await t.test("shows what to choose if the query has too many robots", async () => {
    const { db, clock, id } = server.plane;
    const ids = Array.from({ length: 5_001 }, () => id("rob"));
    const now = clock.now();
    const { site_id } = (await org.api.getFleet({ params: { id: fleet_id } })).data;
    await db.run(sql`
      insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
      select ${org.id}, of, 'many ' || of, ${site_id}, ${fleet_id}, of::bytea, ${now}, ${now} from unnest(${ids}::text[]) as of`);
    it.allow(/metrics\/query.* was answered 400/);
    await visit(page, urlOf([{ name: "cpu_percent" }]));
    await page.getByText("more than 5000 robots match: choose a site, a fleet or a label").waitFor();
    await axe(page);
  });
});
