import { test } from "node:test";
import { assertFits, axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

test("the page of a site shows its robots, incidents, fleets, releases and events", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org, server } = it;
  const { api } = org;
  const site_id = await org.site("Hall 2");
  const fleet_id = await org.fleet({ name: "Carts", site_id });
  const other = await org.enrollRobot({ fleet_id: await org.fleet({ name: "Elsewhere", site_id: await org.site("Aachen") }) });
  const path = `/sites/${site_id}`;

  await t.test("without robots it states what will appear", async () => {
    await visit(page, `/sites/${await org.site("Empty")}`);
    for (const text of ["No open incidents", "No fleets at this site yet", "No releases installed yet", "No activity yet"])
      await page.getByText(text).waitFor();
    await axe(page);
  });

  const robots = await org.enrollRobots(4, { fleet_id });
  const [first, second] = robots;
  const { name } = (await api.getRobot({ params: { id: second!.id } })).data;
  const ended = (id: string) => server.until("the deployment to end", async () => (await org.deployment(id)).finished_at !== null);
  const deploy = async (tag: string, target: { fleet_id: string } | { robot_id: string }) =>
    ended((await org.deploy(await org.release({ tag, app: "nav" }), target, { rollout: { verify_seconds: 0 } })).id);
  await deploy("nav-1.0", { fleet_id });
  await deploy("nav-1.1", { robot_id: first!.id });
  await deploy("nav-9.9", { robot_id: other.id });
  await api.updateAlertRule({ params: { id: await org.defaultRule("robot_offline") }, body: { for_seconds: 0 } });
  await second!.disconnect();

  await t.test("counts the robots of the site only, by state and release", async () => {
    await visit(page, path);
    await page.getByRole("link", { name: "3 of 4 online" }).first().waitFor();
    await page.getByRole("link", { name: "1 offline" }).waitFor();
    await page.getByRole("region", { name: "Open incidents" }).getByText(name).waitFor();
    await page.getByRole("region", { name: "Recent activity" }).getByRole("listitem").first().waitFor();
    const versions = page.getByRole("region", { name: "Versions" });
    await versions.getByText("nav-1.0").waitFor();
    await versions.getByText("3 (75%)").waitFor();
    await server.until("no release of other sites", async () => (await page.getByText("nav-9.9").count()) === 0);
    await axe(page);
    await assertFits(page);
  });

  await t.test("a release links to the robots of the site that run it", async () => {
    await page
      .getByRole("region", { name: "Versions" })
      .getByRole("link", { name: /nav-1.1/ })
      .click();
    await page.waitForURL(/release_id=/);
    await server.until("the robot", async () => (await page.locator("[data-row]").count()) === 1);
    await page.locator("[data-row]", { hasText: "nav-1.1" }).waitFor();
  });

  await t.test("the page of the fleet shows its releases", async () => {
    await visit(page, `/fleets/${fleet_id}`);
    await page.getByRole("region", { name: "Versions" }).getByText("3 (75%)").waitFor();
    await axe(page);
  });

  await t.test("the audit log names the site, and shows a changed field before and after", async () => {
    await api.updateSite({ params: { id: site_id }, body: { name: "Hall 3" } });
    await visit(page, `/audit?object_id=${site_id}`);
    await page.locator("[data-row]", { hasText: "site Hall 3" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Hall 2").waitFor();
    await dialog.getByText("Hall 3").last().waitFor();
    await axe(page);
    await page.keyboard.press("Escape");
  });

  await t.test("each part that cannot be loaded shows its error, and the others remain", async () => {
    it.allow(/was answered 503|status of 503/);
    await page.route("**/api/overview/fleets?*", (route) =>
      route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the database does not answer" } } }),
    );
    await visit(page, path);
    await page.getByRole("region", { name: "Versions" }).getByRole("alert").waitFor();
    await page.getByRole("region", { name: "Open incidents" }).getByText(name).waitFor();
    await axe(page);
    await page.unroute("**/api/overview/fleets?*");
  });

  await t.test("keeps showing the last data during an outage, and says that it is out of date", async () => {
    it.allow(/ERR_FAILED/);
    await page.route("**/api/events?*", (route) => route.abort());
    await visit(page, path);
    await page.getByRole("region", { name: "Versions" }).getByText("nav-1.0").waitFor();
    await page.route("**/api/**", (route) => route.abort());
    await page.locator("[data-outage]").waitFor();
    await page.getByRole("region", { name: "Versions" }).getByText("nav-1.0").waitFor();
    // A page of the dashboard that is opened during the outage has no data.
    await page.getByRole("link", { name: "Fleets", exact: true }).click();
    await page.getByText("Not loaded: the server is not responding").first().waitFor();
    await axe(page);
    await page.unrouteAll();
  });

  await t.test("fits a narrow screen in dark mode", async () => {
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator("html[data-theme=dark]").waitFor();
    await visit(page, path);
    await axe(page);
    await assertFits(page);
  });
});
