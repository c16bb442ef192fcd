import assert from "node:assert/strict";
import { test } from "node:test";
import { assertFits, axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

test("works on incidents and alert rules in the browser", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org, server } = it;
  const { api } = org;
  const fleet_id = await org.fleet({ name: "Carts" });
  const [first, second] = await org.enrollRobots(3, { fleet_id });
  await api.createUser({ body: { email: "ada@example.org", name: "Ada Lovelace", role: "operator" } });

  await t.test("states that there are no incidents", async () => {
    await visit(page, "/incidents");
    await page.getByText("No open incidents").waitFor();
    await axe(page);
  });

  await t.test("lists an incident with its affected robots when they go offline", async () => {
    await api.updateAlertRule({ params: { id: await org.defaultRule("robot_offline") }, body: { for_seconds: 0 } });
    await Promise.all([first!.disconnect(), second!.disconnect()]);
    const row = page.locator("[data-row]", { hasText: "Robot offline" });
    await row.getByText("2 affected").waitFor();
    await axe(page);
    await row.getByRole("link", { name: "Robot offline" }).click();
    await page.waitForURL(/\/incidents\/inc_/);
    await page
      .getByRole("link", { name: /^Logs of .* at that time/ })
      .nth(1)
      .waitFor();
    await axe(page);
  });
  const id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  const incident = async () => (await api.getIncident({ params: { id } })).data;

  await t.test("acknowledges, assigns and comments an incident", async () => {
    await page.getByRole("button", { name: "Acknowledge" }).click();
    await server.until("the acknowledgement", async () => (await incident()).status === "acknowledged");
    await page.getByRole("button", { name: "Acknowledge" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Assign…" }).click();
    await page.getByLabel("User").selectOption({ label: "Ada Lovelace" });
    await axe(page);
    await page.getByRole("button", { name: "Assign", exact: true }).click();
    await page.getByText("assigned it to Ada Lovelace").waitFor();
    await page.getByRole("button", { name: "Comment" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Comment").fill("the dock has no power");
    await dialog.getByRole("button", { name: "Comment" }).click();
    await page.getByRole("region", { name: "History" }).getByText("the dock has no power").waitFor();
    await axe(page);
  });

  await t.test("resolves an incident with a comment", async () => {
    await page.getByRole("button", { name: "Resolve" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Comment (optional)").fill("power is back");
    await dialog.getByRole("button", { name: "Resolve" }).click();
    await server.until("the resolution", async () => (await incident()).status === "resolved");
    await page.getByText("resolved the incident").waitFor();
    assert.equal(await page.getByRole("button", { name: "Resolve" }).count(), 0);
  });

  await t.test("finds a resolved incident with the filter", async () => {
    await visit(page, "/incidents");
    await page.getByText("No open incidents").waitFor();
    await page.getByLabel("Status").selectOption("resolved");
    await page.waitForURL(/state=resolved/);
    await page.locator("[data-row]", { hasText: "Robot offline" }).waitFor();
  });

  await t.test("tests, creates, disables and deletes an alert rule", async () => {
    await visit(page, "/alert-rules");
    await page.getByRole("button", { name: "New rule" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("Carts offline");
    await dialog.getByLabel("Scope", { exact: true }).selectOption({ label: "Fleet Carts" });
    await dialog.getByRole("button", { name: "Test" }).click();
    await dialog.getByText("Matches 2 of 3 robots now.").waitFor();
    await axe(page);
    await dialog.getByRole("button", { name: "Create rule" }).click();
    const row = page.locator("[data-row]", { hasText: "Carts offline" });
    await row.getByText("robot offline for 10 min").waitFor();
    await row.getByRole("button", { name: "Actions for Carts offline" }).click();
    await page.getByRole("menuitem", { name: "Disable" }).click();
    await row.getByText("disabled").waitFor();
    await row.getByRole("button", { name: "Actions for Carts offline" }).click();
    await page.getByRole("menuitem", { name: "Test…" }).click();
    await page.getByRole("dialog").getByText("Matches 2 of 3 robots now.").waitFor();
    await page.keyboard.press("Escape");
    await row.getByRole("button", { name: "Actions for Carts offline" }).click();
    await page.getByRole("menuitem", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete rule" }).click();
    await row.waitFor({ state: "detached" });
  });

  await t.test("creates an alert rule for a metric that is above a bound", async () => {
    await visit(page, "/alert-rules");
    await page.getByRole("button", { name: "New rule" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("Data disk");
    await dialog.getByLabel("Condition").selectOption("metric_above");
    await dialog.getByLabel("Metric").fill("disk_used_bytes{mount=/data}");
    await dialog.getByLabel("Limit").fill("5000");
    await dialog.getByLabel("Averaged over (minutes)").fill("10");
    await axe(page);
    await dialog.getByRole("button", { name: "Create rule" }).click();
    const row = page.locator("[data-row]", { hasText: "Data disk" });
    await row.getByText("mean of disk_used_bytes{mount=/data} in 10 min above 5000 for 10 min").waitFor();
  });

  await t.test("a viewer sees incidents without actions, and the pages fit a narrow screen", async () => {
    const viewer = await it.as("viewer", { width: 390, height: 844, theme: "dark" });
    for (const path of [`/incidents/${id}`, "/incidents?state=all", "/alert-rules"]) {
      await visit(viewer, path);
      await axe(viewer);
      await assertFits(viewer);
      assert.equal(await viewer.getByRole("button", { name: /^(Comment|New rule)$/ }).count(), 0);
    }
  });

  await t.test("lists the incidents of a deleted rule", async () => {
    it.allow(/status of 404/);
    await api.deleteAlertRule({ params: { id: await org.defaultRule("robot_offline") } });
    await visit(page, `/incidents/${id}`);
    await page.getByRole("link", { name: "not available" }).click();
    await page.waitForURL(/\/incidents\?.*rule_id=alr_/);
    await page.locator("[data-row]", { hasText: "Robot offline" }).waitFor();
    const rule = page.getByLabel("Rule");
    assert.match((await rule.locator("option:checked").textContent()) ?? "", /deleted rule/);
    await axe(page);
    await rule.selectOption({ label: "Data disk" });
    await page.getByText("No matching incidents").waitFor();
    assert.equal(await rule.getByRole("option", { name: "deleted rule" }).count(), 0);
  });
});
