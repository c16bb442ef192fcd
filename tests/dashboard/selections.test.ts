import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, goTo, NO_BROWSER, openDashboard } from "../harness/browser.ts";

const ROBOTS = 6;

test("deploys to selected robots in the browser", { skip: NO_BROWSER, timeout: 400_000 }, async (t) => {
  const { server, page, robots } = await openDashboard(t, { robots: ROBOTS });
  const fleet_id = await server.homeFleet();
  const { site_id, name: fleet_name } = (await server.api.getFleet({ params: { id: fleet_id } })).data;
  const site_name = (await server.api.getSite({ params: { id: site_id } })).data.name;
  await server.enrollRobot({ fleet_id: await server.fleet({ site_id: await server.site() }), online: false, labels: { line: "3" } });
  for (const { id } of robots.slice(0, 4)) await server.api.updateRobot({ params: { id }, body: { labels: { line: "3" } } });
  await server.release({ tag: "1.4.0" });
  const newest = async () => (await server.api.listDeployments({ query: { limit: 1 } })).items[0];

  await t.test("counts the robots that match a site and labels while they are chosen", async () => {
    await goTo(page, "/deployments/new");
    await page
      .getByRole("button", { name: "A selection" })
      .or(page.getByRole("radio", { name: "A selection" }))
      .first()
      .click();
    await page.getByText("Choose a site, a fleet or labels.").waitFor();
    await page.getByLabel("Labels").fill("line=3");
    await page.getByText("Matches 5 robots now.").waitFor();
    await page.getByLabel("Site", { exact: true }).selectOption(site_id);
    await page.getByText("Matches 4 robots now.").waitFor();
    await page.getByLabel("Labels").fill("line");
    await page.getByText("Enter labels as key=value").waitFor();
    await page.getByText("Choose a site, a fleet or labels.").waitFor();
    await page.getByLabel("Labels").fill("line=9");
    await page.getByText("No robot matches now.").waitFor();
    await page.getByLabel("Labels").fill("line=3");
    await page.getByText("Matches 4 robots now.").waitFor();
    await axe(page);
  });

  await t.test("previews and deploys the selection, and names it in words", async () => {
    await goTo(page, `/deployments/new?release=1.4.0&site_id=${site_id}&labels=line%3D3`);
    await page.getByText(`rf deploy 1.4.0 --site ${site_id} --label line=3`, { exact: true }).waitFor();
    await page.getByRole("button", { name: "Deploy 1.4.0 to 4 robots" }).click();
    await page.waitForURL(/\/deployments\/dep_/);
    const words = `robots of site ${site_name} with line=3`;
    await page.getByRole("heading", { name: words }).waitFor();
    await axe(page);
    assert.deepEqual((await newest())?.target_selector, { site_id, labels: { line: "3" } });
    await goTo(page, "/deployments");
    await page.locator("[data-row]", { hasText: words }).waitFor();
    await axe(page);
  });

  await t.test("deploys to robots that are selected in the list of robots", async () => {
    await goTo(page, `/robots?fleet_id=${fleet_id}&sort=name`);
    for (const at of [0, 1]) await page.locator("[data-row]").nth(at).getByLabel("Select").click();
    await page.getByRole("button", { name: "Deploy to 2 selected" }).click();
    await page.waitForURL(/\/deployments\/new/);
    await page.getByText("Only the 2 robots selected in the list of robots").waitFor();
    await page.reload();
    await page.getByText("Only the 2 robots selected in the list of robots").waitFor();
    await page.getByRole("combobox", { name: "Release" }).fill("1.4.0");
    await page.getByRole("combobox", { name: "Release" }).press("Enter");
    await page.getByText("rf api POST /api/deployments").waitFor();
    await axe(page);
    await page.getByRole("button", { name: "Deploy 1.4.0 to 2 robots" }).click();
    await page.waitForURL(/\/deployments\/dep_/);
    await page.getByRole("heading", { name: `2 selected robots of fleet ${fleet_name}` }).waitFor();
    const selector = (await newest())?.target_selector;
    assert.equal(selector?.robot_ids?.length, 2);
    assert.equal(selector?.fleet_id, fleet_id);
  });

  await t.test("lists the selections of a robot on its page", async () => {
    const robot_id = (await newest())?.target_selector?.robot_ids?.[0] ?? "";
    await goTo(page, `/robots/${robot_id}`);
    await page.getByText("to a selection, ").first().waitFor();
    await goTo(page, `/deployments?robot_id=${robot_id}`);
    await page.locator("[data-row]", { hasText: "selected robots" }).waitFor();
  });

  await t.test("removes the limit to the robots that were selected", async () => {
    await goTo(page, `/robots?fleet_id=${fleet_id}&sort=name`);
    await page.locator("[data-row]").nth(0).getByLabel("Select").click();
    await page.getByRole("button", { name: "Deploy to 1 selected" }).click();
    await page.getByRole("button", { name: "Remove the limit to these robots" }).click();
    await page.getByText(`Matches ${ROBOTS} robots now.`).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Deploy a release" }).waitFor();
    assert.equal(await page.getByText("selected in the list of robots").count(), 0);
  });
});
