import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack } from "@roamfleet/swarm/testing";
import type { Page } from "playwright-core";
import { assertFits, axe, type Dashboard, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const ROBOTS = 30;

test("the report", { skip: NO_BROWSER, timeout: 300_000 }, async (t) => {
  const it = await openDashboard(t);
  await t.test("states that nothing happened", () => empty(it));
  await t.test("groups robots, and links to what it lists", () => filled(it));
  await t.test("shows changes of people only to admins", () => viewer(it));
});

async function empty({ page }: Dashboard): Promise<void> {
  await visit(page, "/report?since=24h");
  const broken = page.getByRole("region", { name: "What broke" });
  await broken.getByText("Nothing in this period").waitFor();
  await axe(page);
  await page.getByRole("button", { name: "7 d" }).click();
  await page.waitForURL(/since=7d/);
  await broken.getByText("Nothing in this period").waitFor();
}

async function filled({ server, org, page }: Dashboard): Promise<void> {
  const fleet_id = await org.homeFleet();
  const robots = await server.enrollRobots(ROBOTS, { fleet_id });
  for (const robot of robots.slice(0, 3)) robot.behave(rollBack(), "nav-2");
  const { id } = await org.deploy(await org.release({ tag: "nav-2" }), { fleet_id }, { rollout: { verify_seconds: 0 } });
  await server.until("the deployment to end", async () => (await org.deployment(id)).finished_at !== null);
  for (const robot of robots) await robot.disconnect();
  await server.until("all robots to be offline", async () => (await org.api.getOverview()).data.robots.offline === ROBOTS);

  await page.getByRole("button", { name: "Refresh" }).click();
  const open = page.getByRole("region", { name: "What is open" });
  await open.getByRole("link", { name: `${ROBOTS} robots at` }).waitFor();
  const broken = page.getByRole("region", { name: "What broke" });
  await broken.getByRole("link", { name: /30 robots at .* went offline, all still are/ }).waitFor();
  await axe(page);
  await broken.getByRole("link", { name: /3 robots at .* health check failed/ }).click();
  await page.waitForURL(new RegExp(`/deployments/${id}`));
  await page.goBack();
  await open.getByRole("link", { name: `${ROBOTS} robots at` }).click();
  await page.waitForURL(/\/robots\?.*status=offline/);
}

const hasPeople = (page: Page): Promise<boolean> => page.getByRole("heading", { name: "People and settings" }).isVisible();

async function viewer(it: Dashboard): Promise<void> {
  const { org, page } = it;
  await org.api.createUser({ body: { email: "ada@example.org", name: "Ada Lovelace", role: "viewer" } });
  await visit(page, "/report");
  await page.getByText("User Ada Lovelace added").waitFor();
  const narrow = await it.as("viewer", { theme: "dark", width: 390, height: 844 });
  await visit(narrow, "/report");
  await narrow.getByText("Release nav-2 created").waitFor();
  assert.deepEqual([await hasPeople(page), await hasPeople(narrow)], [true, false]);
  await axe(narrow);
  await assertFits(narrow);
}
