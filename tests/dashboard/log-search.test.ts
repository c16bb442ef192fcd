import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const TIMEOUT = 400_000;

test("searches the logs of all robots", { skip: NO_BROWSER, timeout: TIMEOUT }, async (t) => {
  const it = await openDashboard(t, { robots: 2 });
  const { page, server, org } = it;
  const [first, second] = it.robots;
  assert.ok(first !== undefined && second !== undefined);
  first.log("motor stalled", { level: "error" });
  first.log("ready");
  second.log("motor warm", { level: "warn" });
  await server.until("the records", async () => (await org.api.searchLogs({})).items.length === 3);
  const { name } = (await org.api.getRobot({ params: { id: first.id } })).data;
  const lines = page.locator("[data-log-line]");

  await t.test("shows the records with robot names and a histogram", async () => {
    await visit(page, "/logs");
    await page.getByText("motor stalled").waitFor();
    assert.equal(await lines.count(), 3);
    await page.getByText("3 records: 1 error, 1 warning").waitFor();
    const histogram = page.getByRole("img", { name: /^Records by time, at most [1-3] records? in a bar\. 3 records: 1 error, 1 warning$/ });
    const axis = histogram.locator("xpath=following-sibling::*[1]").locator("span");
    // The hour before now has labels at 10, 20 … minutes.
    assert.match((await axis.allTextContents()).join(), /^(\d\d:\d0[^,]*,){3,5}\d\d:\d0[^,]*$/);
    await axe(page);
  });

  await t.test("keeps the filters in the URL", async () => {
    await page.getByLabel("Search messages").fill("motor");
    await server.until("two records", async () => (await lines.count()) === 2);
    await page.getByLabel("Level").selectOption("error");
    await server.until("one record", async () => (await lines.count()) === 1);
    const { searchParams } = new URL(page.url());
    assert.deepEqual([searchParams.get("q"), searchParams.get("level")], ["motor", "error"]);
    await page.reload();
    await page.getByText("motor stalled").waitFor();
    assert.equal(await lines.count(), 1);
  });

  await t.test("selects the time of a bar", async () => {
    const bar = page.locator('[data-log-bar="1"]');
    await bar.waitFor();
    const box = await bar.boundingBox();
    assert.ok(box);
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await page.getByLabel("From").waitFor();
    await page.getByText("motor stalled").waitFor();
    const { searchParams } = new URL(page.url());
    assert.ok(searchParams.get("since") !== null && searchParams.get("until") !== null);
  });

  await t.test("opens the log of a robot at the time of a record", async () => {
    await page.getByRole("link", { name, exact: true }).click();
    await page.waitForURL(`**/robots/${first.id}/logs?*`);
    await page.getByText("motor stalled").waitFor();
  });

  await t.test("shows a message when no record matches, and an error when the search fails", async () => {
    await visit(page, "/logs?q=nothing");
    await page.getByText("No matching log records").waitFor();
    it.allow(/status of 429/);
    await page.route(/\/api\/logs\?/, (route) => route.fulfill({ status: 429, json: { error: { code: "http_error", message: "busy" } } }));
    await visit(page, "/logs?q=fails");
    await page.getByRole("button", { name: "Try again" }).waitFor();
    await page.unroute(/\/api\/logs\?/);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No matching log records").waitFor();
  });

  await t.test("continues a search that reached its limit", async () => {
    await page.route(/\/api\/logs\?/, async (route) => {
      const is_first = !new URL(route.request().url()).searchParams.has("cursor");
      if (is_first) await route.fulfill({ json: { items: [], next_cursor: "c1", searched_back_to: new Date(0).toISOString() } });
      else await route.fulfill({ json: { items: [], next_cursor: null, searched_back_to: null } });
    });
    await visit(page, "/logs?q=rare");
    await page.getByText("Searched back to").waitFor();
    await page.getByRole("button", { name: "Continue", exact: true }).click();
    await page.getByText("No matching log records").waitFor();
  });
});
