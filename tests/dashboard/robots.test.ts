import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

test("finds, watches and changes robots in the browser, individually and in bulk", { skip: NO_BROWSER, timeout: 400_000 }, async (t) => {
  const it = await openDashboard(t, { robots: 4 });
  const { page } = it;
  const { api } = it.org;
  const ids = it.robots.map(({ id }) => id);
  const rename = (at: number, name: string) => api.updateRobot({ params: { id: ids[at]! }, body: { name } });
  for (const at of ids.keys()) await rename(at, `cart-${at}`);
  const row = (name: string) => page.getByRole("row").filter({ hasText: name });

  await t.test("keeps a search for robots in the URL, and reports if nothing matches", async () => {
    await visit(page, "/robots");
    await row("cart-3").waitFor();
    await page.getByRole("searchbox").fill("cart-1");
    await page.waitForURL(/q=cart-1/);
    await row("cart-2").waitFor({ state: "detached" });
    await row("cart-1").waitFor();
    await page.getByRole("searchbox").fill("zeppelin");
    await page.getByText("No matching robots").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await row("cart-0").waitFor();
  });

  await t.test("sorts by a column, hides columns and shows dense rows, and keeps the choice in the browser", async () => {
    await visit(page, "/robots");
    await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
    await page.waitForURL(/sort=name/);
    await page.locator("[role=columnheader][aria-sort=ascending]", { hasText: "Name" }).waitFor();
    await it.server.until("robots by name", async () => {
      const shown = await page.locator("[data-row]").allInnerTexts();
      return shown.length === 4 && shown.every((text, at) => text.includes(`cart-${at}`));
    });
    const high = (await row("cart-1").boundingBox())?.height ?? 0;
    await page.getByRole("button", { name: "Table settings" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("checkbox", { name: "Health" }).click();
    await dialog.getByRole("switch", { name: "Dense rows" }).click();
    await axe(page);
    await page.keyboard.press("Escape");
    await visit(page, "/robots");
    await row("cart-1").waitFor();
    assert.equal(await page.getByRole("columnheader", { name: "Health" }).count(), 0);
    assert.ok(((await row("cart-1").boundingBox())?.height ?? 0) < high);
    await axe(page);
    await page.getByRole("button", { name: "Table settings" }).click();
    await dialog.getByRole("checkbox", { name: "Health" }).click();
    await dialog.getByRole("switch", { name: "Dense rows" }).click();
    await page.keyboard.press("Escape");
    await page.getByRole("columnheader", { name: "Health" }).waitFor();
  });

  await t.test("shows changes by other users automatically", async () => {
    await rename(2, "renamed elsewhere");
    await row("renamed elsewhere").waitFor();
    assert.equal(await row("cart-2").count(), 0);
    await rename(2, "cart-2");
    await row("cart-2").waitFor();
  });

  await t.test("a hidden browser tab closes its event stream and is updated when visible again", async () => {
    const tab = await it.as("viewer");
    await tab.clock.install();
    await visit(tab, "/robots");
    await tab.getByText("Live", { exact: true }).first().waitFor();
    const see = (state: "hidden" | "visible"): Promise<unknown> =>
      tab.evaluate(`Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await see("hidden");
    await tab.clock.fastForward(60_000);
    await tab.getByText("Connecting", { exact: true }).first().waitFor();
    await rename(2, "renamed meanwhile");
    await see("visible");
    await tab.getByText("renamed meanwhile").waitFor();
    await tab.getByText("Live", { exact: true }).first().waitFor();
    await rename(2, "cart-2");
    await tab.getByText("cart-2").waitFor();
    await tab.context().close();
  });

  await t.test("changes the labels of selected robots and shows the result for each robot", async () => {
    await page.getByRole("checkbox", { name: "Select all 4 loaded rows" }).click();
    await page.getByText("4 robots selected").waitFor();
    await page.getByRole("button", { name: "Labels" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Label to set").fill("zone=b");
    await dialog.getByRole("button", { name: "Add" }).click();
    await axe(page);
    await dialog.getByRole("button", { name: "Change labels" }).click();
    await dialog.getByText("4 changed").waitFor();
    await dialog.getByRole("button", { name: "Close" }).last().click();
    for (const robot of (await api.listRobots({})).items) assert.equal(robot.labels["zone"], "b");
  });

  await t.test("renames a robot, and decommissions it only after its name is typed", async () => {
    await visit(page, `/robots/${ids[3]!}`);
    await page.getByRole("button", { name: "Actions for this robot" }).click();
    await page.getByRole("menuitem", { name: "Rename…" }).click();
    await page.getByLabel("Name", { exact: true }).fill("lift-3");
    await page.getByRole("button", { name: "Rename" }).click();
    await page.getByRole("heading", { level: 1, name: "lift-3" }).waitFor();
    await page.getByRole("button", { name: "Actions for this robot" }).click();
    await page.getByRole("menuitem", { name: "Decommission…" }).click();
    const button = page.getByRole("button", { name: "Decommission", exact: true });
    assert.equal(await button.isDisabled(), true);
    await page.getByLabel(/^Type/).fill("lift-3");
    await button.click();
    await page.getByText("the robot can no longer be changed").waitFor();
    assert.equal((await api.getRobot({ params: { id: ids[3]! } })).data.status, "decommissioned");
  });

  await t.test("shows since when a robot has been offline and which actions are still available", async () => {
    await it.robots[1]!.disconnect();
    await visit(page, `/robots/${ids[1]!}`);
    await page.getByText("changes take effect when it reconnects").waitFor();
    await axe(page);
  });

  await t.test("shows viewers the robots without the actions that they may not perform", async () => {
    const viewer = await it.as("viewer");
    await visit(viewer, "/robots");
    await viewer.getByRole("row").filter({ hasText: "cart-0" }).waitFor();
    assert.equal(await viewer.getByRole("checkbox").count(), 0);
    await visit(viewer, `/robots/${ids[0]!}`);
    await viewer.getByRole("button", { name: "Actions for this robot" }).click();
    await viewer.getByRole("menuitem", { name: "Copy rf command" }).waitFor();
    assert.equal(await viewer.getByRole("menuitem").count(), 1);
  });
});
