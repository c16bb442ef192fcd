import { test } from "node:test";
import { axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

test("the command palette deploys, opens logs and metrics, and acknowledges incidents", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org, server } = it;
  const { api } = org;
  const fleet_id = await org.fleet({ name: "Carts" });
  const [robot] = await org.enrollRobots(1, { fleet_id });
  await api.updateRobot({ params: { id: robot!.id }, body: { name: "cart-7" } });
  await org.release({ tag: "nav-1.0" });
  await api.updateAlertRule({ params: { id: await org.defaultRule("robot_offline") }, body: { for_seconds: 0 } });
  await robot!.disconnect();
  const incident = await server.until("an incident", async () => (await api.listIncidents({ query: { unresolved: true } })).items[0]);
  /** Types the text in the palette and selects an entry. */
  const choose = async (text: string, entry: string): Promise<void> => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Search/ }).fill(text);
    await page.getByRole("option", { name: entry }).waitFor();
    await axe(page);
    await page.getByRole("option", { name: entry }).click();
  };

  await visit(page, "/");
  await t.test("opens the deploy form with a release, and with a fleet", async () => {
    await choose("deploy nav", "Deploy nav-1.0");
    await page.waitForURL(/\/deployments\/new\?release=nav-1.0/);
    await choose("deploy carts", "Deploy to Carts");
    await page.waitForURL(new RegExp(`/deployments/new\\?fleet_id=${fleet_id}`));
  });

  await t.test("opens the logs of a robot", async () => {
    await choose("logs cart-7", "Logs of cart-7");
    await page.waitForURL(`**/robots/${robot!.id}/logs`);
  });

  await t.test("opens the metrics of a robot and of a fleet", async () => {
    await choose("metrics cart-7", "Metrics of cart-7");
    await page.waitForURL(`**/robots/${robot!.id}/metrics`);
    await choose("metrics carts", "Metrics of Carts");
    await page.waitForURL((url) => url.pathname === "/explore" && url.search.includes(fleet_id));
  });

  await t.test("a page that starts like a verb remains the first entry", async () => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Search/ }).fill("deploy");
    await page.getByRole("option", { name: "Deploy to Carts" }).waitFor();
    await page.locator("#palette-0", { hasText: "Deployments" }).waitFor();
    await page.keyboard.press("Escape");
  });

  await t.test("acknowledges an incident", async () => {
    await choose("ack offline", `Acknowledge ${incident.title}`);
    await page.getByText("Incident acknowledged").waitFor();
    await server.until(
      "the acknowledgement",
      async () => (await api.getIncident({ params: { id: incident.id } })).data.status === "acknowledged",
    );
  });

  await t.test("offers viewers no changes", async () => {
    const viewer = await it.as("viewer");
    await visit(viewer, "/");
    await viewer.keyboard.press("Control+k");
    await viewer.getByRole("combobox", { name: /^Search/ }).fill("deploy carts");
    await viewer.getByText("No matches").waitFor();
  });
});
