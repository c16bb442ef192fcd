import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack } from "@roamfleet/swarm/testing";
import type { Page } from "playwright-core";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { assertFits, axe, type Dashboard, goTo, NO_BROWSER, openDashboard, settled, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

test("pages of the dashboard show the current state of deployments, robots and configs", LIMIT, async (t) => {
  const it = await openDashboard(t);
  await t.test("deploys the typed tag even if the list highlights another one, and refuses an unknown tag", () => typedTag(it));
  await t.test("shows offline robots as offline, and does not show their last health as current", () => offline(it));
  await t.test("shows no soak countdown for a paused wave, and counts paused deployments on the overview", () => paused(it));
  await t.test("the number of failed deployments links to the list of exactly these deployments", () => failures(it));
  await t.test("shows that a config change is not deployed on the pages of its value, fleet and robot", () => pending(it));
  await t.test("finds an object by its pasted ID, and moves through a table with the arrow keys", () => keys(it));
  await t.test("selects robots beyond the loaded page and shows how many are selected", () => selectAll(it));
  await t.test("links the incident that paused a rollout, and shows the gate of a soaking wave", () => gated(it));
  await t.test("notifications never cover a control of the page, on any screen size", () => toasts(it));
});

async function typedTag({ page, org, server }: Dashboard): Promise<void> {
  const fleet_id = await org.fleet({ name: "Carts" });
  await org.enrollRobot({ fleet_id });
  for (const tag of ["nav-1.2", "nav-1.20", "nav-1.21"]) await org.release({ tag });
  await visit(page, `/deployments/new?fleet_id=${fleet_id}&release=nav-1.21`);
  const deploy = page.getByRole("button", { name: /^Deploy nav|Choose a release/ });
  await page.getByRole("button", { name: "Deploy nav-1.21 to 1 robot" }).waitFor();
  const release = page.getByRole("combobox", { name: "Release" });
  await release.fill("nav-1.2");
  assert.equal(await deploy.isDisabled(), true, "the previous selection is not sent while another tag is typed");
  await page.getByRole("option", { name: "nav-1.20" }).hover();
  await release.press("Enter");
  await page.getByRole("button", { name: "Deploy nav-1.2 to 1 robot" }).waitFor();
  // Click elsewhere to leave the field, instead of pressing Enter.
  await release.fill("nav-9");
  await page.getByRole("heading", { name: "Deploy a release" }).click();
  await page.getByText("Release nav-9 does not exist").waitFor();
  assert.equal(await deploy.isDisabled(), true);
  await axe(page);
  await release.fill("nav-1");
  await page.getByRole("option", { name: "nav-1.21" }).waitFor();
  await release.press("ArrowDown");
  await release.press("Enter");
  await page.getByRole("button", { name: "Deploy nav-1.21 to 1 robot" }).waitFor();
  const fleet = page.getByRole("combobox", { name: "Fleet" });
  await fleet.fill("Cart");
  await page.getByRole("heading", { name: "Deploy a release" }).click();
  await page.getByText("No fleet named Cart").waitFor();
  assert.equal(await deploy.isDisabled(), true);
  await fleet.fill("Carts");
  await page.getByRole("heading", { name: "Deploy a release" }).click();
  await server.until("the fleet of that name", () => deploy.isEnabled());
}

async function offline({ page, org, server }: Dashboard): Promise<void> {
  const fleet_id = await org.fleet({ name: "Arms" });
  const [robot] = await org.enrollRobots(2, { fleet_id });
  robot!.sendHealth({
    cpu: { percent: 1, load_1m: 1, cores: 4, temperature_celsius: null },
    memory: { used_bytes: 1, total_bytes: 4 },
    disks: [],
    battery: null,
    network: [],
    checks: [],
  });
  const getRobot = async () => (await org.api.getRobot({ params: { id: robot!.id } })).data;
  await server.until("its health", async () => (await getRobot()).health === "ok");
  await robot!.disconnect();
  await server.until("it to be offline", async () => (await getRobot()).status === "offline");
  const deployment = await org.deploy(await org.release(), { fleet_id });
  await visit(page, `/deployments/${deployment.id}`);
  await page.getByText("1 robot is offline and gets the release when it connects.").waitFor();
  await page.locator("[data-row]", { hasText: "robot offline: starts when it connects" }).waitFor();
  await visit(page, `/robots/${robot!.id}`);
  await page.getByText("was healthy").waitFor();
  await visit(page, `/robots?fleet_id=${fleet_id}`);
  await page.locator("[data-row]", { hasText: "was healthy" }).waitFor();
  await axe(page);
}

async function gated({ page, org, server }: Dashboard): Promise<void> {
  const fleet_id = await org.fleet({ name: "Sweepers" });
  const robots = await org.enrollRobots(2, { fleet_id });
  await org.api.createAlertRule({ body: { name: "Sweeper gone", severity: "critical", condition: { type: "robot_offline" }, fleet_id } });
  const waves = [{ count: 1, soak_seconds: 3_600, gate_incidents: "warning" as const }];
  const { id } = await org.deploy(await org.release(), { fleet_id }, { rollout: { waves } });
  const soaks = async () => (await org.api.listDeploymentWaves({ params: { id } })).items[0]?.status === "soaking";
  await server.until("the first wave to soak", soaks);
  await visit(page, `/deployments/${id}`);
  await page.getByText("Gate waiting: no new incident of severity warning or above on updated robots of the wave.").waitFor();
  await robots.toSorted((a, b) => (a.id < b.id ? -1 : 1))[0]?.disconnect();
  await server.until("the deployment to be paused", async () => {
    // The deployment is checked within 30 s, which the test does not wait for.
    await server.db.run(sql`update deployment set step_at = ${server.clock.now()} where id = ${id} and paused_at is null`);
    return (await org.api.getDeployment({ params: { id } })).data.reason === "gate_failed";
  });
  await page
    .getByText(/^Paused: the gate of a wave failed: an updated robot of the wave joined the critical incident Sweeper gone/)
    .waitFor();
  await axe(page);
  await page.getByRole("link", { name: "Show incident" }).click();
  await page.getByRole("heading", { name: "Sweeper gone" }).waitFor();
}

async function paused({ page, org, server }: Dashboard): Promise<void> {
  const fleet_id = await org.fleet({ name: "Lifts" });
  await org.enrollRobots(2, { fleet_id });
  const rollout = { waves: [{ count: 1, soak_seconds: 3_600 }, { percent: 100 }] };
  const deployment = await org.deploy(await org.release(), { fleet_id, rollout } as never);
  const waves = async () => (await org.api.listDeploymentWaves({ params: { id: deployment.id } })).items;
  await server.until("the first wave to soak", async () => (await waves())[0]?.status === "soaking");
  await org.api.pauseDeployment({ params: { id: deployment.id } });
  await visit(page, `/deployments/${deployment.id}`);
  const wave = page.getByRole("button", { name: /Wave 1/ });
  await wave.getByText("soak time left").waitFor();
  assert.equal(await wave.getByText("soaking", { exact: true }).count(), 0);
  // When a robot joins a fleet that has a release, a separate deployment installs that release on it.
  const has = await org.fleet({ name: "Movers" });
  await org.enrollRobot({ fleet_id: has });
  const known = await org.deploy(await org.release({ tag: "moved" }), { fleet_id: has });
  await server.until("the fleet to have it", async () => {
    return (await org.api.getDeployment({ params: { id: known.id } })).data.status === "applied";
  });
  const late = await org.enrollRobot({ fleet_id: has });
  const following = async () => (await org.api.listDeployments({ query: { cause: "follow" } })).items;
  await server.until("the robot to follow", async () => (await following()).some(({ robot_id }) => robot_id === late.id));
  const requested = (await org.api.listDeployments({ query: { cause: "request" } })).items;
  assert.ok(requested.every(({ created_by }) => created_by.type !== "system"));
  await visit(page, "/");
  await page.getByRole("link", { name: "1 deployment paused" }).last().click();
  await page.waitForURL(/status=paused/);
  await visit(page, "/deployments");
  const moved = page.locator("[data-row]", { hasText: "moved" });
  await moved.first().waitFor();
  assert.equal(await moved.count(), 1);
  await page.getByRole("checkbox", { name: "Include auto-updates" }).click();
  await page.waitForURL(/following=true/);
  await server.until("the robot's own deployment", async () => (await moved.count()) === 2);
  await axe(page);
}

async function failures({ page, org, server }: Dashboard): Promise<void> {
  const robot = await org.enrollRobot({ fleet_id: await org.fleet({ name: "Drills" }), behavior: rollBack() });
  const failed = async (tag: string): Promise<string> => {
    const { id } = await org.deploy(await org.release({ tag }), { robot_id: robot.id });
    await server.until(`${tag} to fail`, async () => (await org.deployment(id)).status === "failed");
    return id;
  };
  const old = await failed("drill-1");
  await failed("drill-2");
  await server.plane.db.run(sql`
    update deployment set created_at = created_at - interval '8 days' where org_id = ${org.id} and id = ${old}`);
  await visit(page, "/");
  await page.getByRole("link", { name: "1 deployment failed, not rolled back, in 7 days" }).click();
  await page.waitForURL(/status=failed/);
  const rows = page.locator("[data-row]", { hasText: "drill-" });
  await rows.first().waitFor();
  assert.deepEqual([await rows.count(), await rows.filter({ hasText: "drill-2" }).count()], [1, 1]);
  await axe(page);
  await page.getByRole("button", { name: "Clear time filter" }).click();
  await server.until("the older one", async () => (await rows.count()) === 2);
}

async function pending({ page, org, server }: Dashboard): Promise<void> {
  const [fleet] = (await org.api.listFleets({ query: { q: "Carts" } })).items;
  const [robot] = (await org.api.listRobots({ query: { fleet_id: fleet!.id } })).items;
  const set = async (value: number) =>
    (await org.api.setConfig({ body: { scope: "fleet", scope_id: fleet!.id, namespace: "nav", key: "speed", value } })).data;
  const { id } = await set(1);
  const pages = [`/configs/${id}`, `/fleets/${fleet!.id}`, `/robots/${robot!.id}`];
  const expect = async (is_pending: boolean): Promise<void> => {
    for (const path of pages) {
      await visit(page, path);
      const badge = page.locator("main").getByText(/^(1 config change )?not deployed$/);
      await badge.first().waitFor({ state: is_pending ? "visible" : "detached" });
    }
  };
  await expect(true);
  await axe(page);
  const { id: deployment } = await org.deployConfig({ fleet_id: fleet!.id });
  await server.until("the config to be applied", async () => {
    return (await org.api.getConfigDeployment({ params: { id: deployment } })).data.status === "applied";
  });
  await expect(false);
  await set(2);
  await expect(true);
}

async function keys({ page, org }: Dashboard): Promise<void> {
  const [fleet] = (await org.api.listFleets({ query: { q: "Carts" } })).items;
  const [deployment] = (await org.api.listDeployments({})).items;
  await visit(page, "/releases");
  for (const [id, url] of [
    [` ${fleet!.id.toUpperCase()} `, `**/fleets/${fleet!.id}`],
    [deployment!.id, `**/deployments/${deployment!.id}`],
  ] as const) {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Search robots/ }).fill(id);
    // Before, the list has the pages.
    await page.locator("#palette-0:only-child").waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(url);
  }
  await visit(page, "/deployments");
  await page.locator("[data-row]").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("Compare 1 of 2").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/deployments\/dep_/);
}

async function selectAll({ page, org, server }: Dashboard): Promise<void> {
  const COUNT = 1_203;
  const [fleet] = (await org.api.listFleets({ query: { q: "Arms" } })).items;
  const { db, clock, id } = server.plane;
  const ids = Array.from({ length: COUNT }, () => id("rob"));
  const now = clock.now();
  await db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    select ${org.id}, of, 'many ' || of, ${fleet!.site_id}, ${fleet!.id}, of::bytea, ${now}, ${now} from unnest(${ids}::text[]) as of`);
  await visit(page, "/robots?q=many");
  await page.getByRole("checkbox", { name: "Select all 500 loaded rows" }).click();
  await page.getByText("500 robots selected").waitFor();
  await page.getByRole("button", { name: "Select all matching robots" }).click();
  await page.getByText("1,203 robots selected").waitFor();
  await axe(page);
  await page.getByRole("button", { name: "Labels" }).click();
  await page.getByText("1,203 robots").first().waitFor();
  await page.keyboard.press("Escape");
}

/** Asserts that no notification covers a visible part of a control, and that no control covers a notification. */
async function assertUncovered(page: Page, what: string): Promise<void> {
  const overlapping = await page.evaluate<string[]>(`(() => {
    /** The part of an element that is not scrolled out of view. */
    const visible = (element) => {
      let { left, top, right, bottom } = element.getBoundingClientRect();
      const clip = (box) => {
        [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
        [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
      };
      clip({ left: 0, top: 0, right: innerWidth, bottom: innerHeight });
      for (let at = element; at !== null && getComputedStyle(at).position !== "fixed"; at = at.parentElement)
        if (at !== element && getComputedStyle(at).overflowY !== "visible") clip(at.getBoundingClientRect());
      return { left, top, right, bottom };
    };
    const overlap = (a, b) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
    const toasts = [...document.querySelectorAll("[data-toast]")].map(visible);
    const controls = [...document.querySelectorAll("button, a, input, select, textarea, [role=option], [tabindex]")];
    return controls
      .filter((one) => one.closest("[data-toast]") === null && one.querySelector("[data-toast]") === null)
      .filter((one) => one.checkVisibility({ opacityProperty: true }) && toasts.some((toast) => overlap(toast, visible(one))))
      .map((one) => one.outerHTML.slice(0, 200));
  })()`);
  assert.deepEqual(overlapping, [], what);
}

const TOASTS = 5;

async function toasts(it: Dashboard): Promise<void> {
  const { page, org } = it;
  it.allow(/was answered 5\d\d|status of 5\d\d/);
  const fleet_id = (await org.api.listFleets({ query: { q: "Carts" } })).items[0]!.id;
  const message = "refused for the test: ".repeat(20);
  await page.route("**/api/fleets/*", (route) =>
    route.request().method() === "GET" ? route.continue() : route.fulfill({ status: 409, json: { error: { code: "conflict", message } } }),
  );
  for (const [width, height] of [
    [1_440, 900],
    [390, 700],
    [700, 400],
  ] as const) {
    await page.setViewportSize({ width, height });
    await goTo(page, `/fleets/${fleet_id}`);
    await settled(page);
    await page.getByRole("button", { name: /auto-update/ }).click();
    const dialog = page.getByRole("dialog");
    // Each click fails if a notification covers the button.
    for (let shown = 1; shown <= TOASTS; shown += 1) {
      await dialog.getByRole("button").last().click();
      await page
        .locator("[data-toast]")
        .nth(shown - 1)
        .waitFor();
    }
    const size = `at ${width} × ${height}`;
    await assertUncovered(page, `a dialog ${size}`);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await assertUncovered(page, `a page ${size}`);
    await assertFits(page);
    await page.locator("#page").evaluate("(page) => page.scrollTo(0, page.scrollHeight)");
    await assertUncovered(page, `the end of a page ${size}`);
    for (const [key, name] of [
      ["?", "Keyboard shortcuts"],
      ["Control+k", "Search or run a command"],
    ] as const) {
      await page.keyboard.press(key);
      await page.getByRole("dialog", { name }).waitFor();
      await assertUncovered(page, `${name} ${size}`);
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    }
    if (width < 768) {
      await page.getByRole("button", { name: "Open navigation" }).click();
      await page.getByRole("navigation", { name: "Main" }).waitFor();
      await assertUncovered(page, `the open navigation ${size}`);
    }
    await visit(page, "/robots");
  }
  await page.unroute("**/api/fleets/*");
}
