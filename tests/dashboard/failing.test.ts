import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { assertFits, axe, NO_BROWSER, openDashboard, settled, visit } from "../harness/browser.ts";
import { makeScene } from "./scene.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 900_000 };

/** Checks the current page on a wide light and a narrow dark screen. */
async function assertWhole(page: Page): Promise<void> {
  for (const [colorScheme, width, height] of [
    ["light", 1_440, 900],
    ["dark", 390, 844],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    await page.locator(`html[data-theme=${colorScheme}]`).waitFor();
    await axe(page);
    await assertFits(page);
  }
  assert.equal(await page.locator("main").count(), 1);
  assert.equal(await page.locator("h1").count(), 1);
}

test("every page stays accessible and states the problem while the server fails", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { pages } = await makeScene(it.server);
  const { page } = it;
  it.allow(/was answered 503|status of 503|the database does not answer|WebSocket connection|ERR_CONNECTION/);
  const message = "the database does not answer";
  const fail = (path: string | RegExp) =>
    page.route(path, (route) => route.fulfill({ status: 503, json: { error: { code: "unavailable", message } } }));
  const signed_in = pages.filter(({ path }) => path !== "/admin");

  for (const path of ["/api/auth/session", "/api/me"])
    await t.test(`replaces the whole page while ${path} fails, and retries at a click and automatically`, async () => {
      await fail(`**${path}`);
      await visit(page, "/robots");
      await page.getByText(message).waitFor();
      await assertWhole(page);
      const tried = page.waitForResponse(`**${path}`);
      await page.getByRole("button", { name: "Try again" }).click();
      await tried;
      await page.unroute(`**${path}`);
      await page.getByRole("heading", { name: "Robots" }).waitFor();
    });

  await t.test("every request except for the session fails", async (each) => {
    await fail(/\/api\/(?!auth\/session|me$)/);
    for (const { name, path } of signed_in)
      await each.test(name, async () => {
        await visit(page, path);
        await assertWhole(page);
      });
    await page.unrouteAll();
  });

  await t.test("a part of a page that cannot be loaded shows an error instead of values", async () => {
    await fail(/\/api\/(?!auth\/session|events\?|me$|(robots|deployments|sites|configs)\/[a-z]+_[0-9a-z]+$)/);
    const open = (name: string) => visit(page, pages.find((one) => one.name === name)!.path);
    await page.setViewportSize({ width: 1_440, height: 900 });
    await open("robot");
    for (const name of ["Deployments", "Recent activity", "Position"])
      await page.getByRole("region", { name }).getByRole("alert").waitFor();
    const details = page.getByRole("region", { name: "Details" });
    await details.getByText("Battery").waitFor();
    await details.getByText("not loaded").first().waitFor();
    assert.equal(await details.getByText(/^(none|not found|—)$/).count(), 0);
    const strip = page.getByRole("region", { name: "Health" });
    await it.server.until("each tile to state it", async () => (await strip.getByText("not loaded").count()) === 6);
    await page.getByTitle("Not loaded: the number of open incidents").waitFor();
    await page.getByText("Errors", { exact: true }).first().waitFor();
    await assertWhole(page);
    await open("site");
    for (const name of ["offline", "unhealthy"]) await page.getByText(`${name}: not loaded`).waitFor();
    await open("config");
    await page.getByText("config state not loaded").waitFor();
    await open("deployment");
    await page.locator("main").getByText(message).first().waitFor();
    // What a running deployment waits for is in its waves.
    assert.equal(
      await page
        .locator("main")
        .getByText(/updating\.|queued\.|Selecting robots/)
        .count(),
      0,
    );
    await page.getByRole("button", { name: "Promote", disabled: true }).waitFor();
    await assertWhole(page);
    await open("deployment-new");
    await page.getByRole("button", { name: "The release is not loaded", disabled: true }).waitFor();
    await page.getByText("Not loaded: the release.").waitFor();
    await open("deployment-failed");
    await page.getByRole("region", { name: "Failures" }).getByRole("alert").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Search/ }).fill("cart");
    await page.getByText(/^Search failed/).waitFor();
    await axe(page);
    await page.unrouteAll();
  });

  await t.test("the server stops while the page is open", async (each) => {
    // Load the code and the data of all pages without leaving the document.
    const open = (path: string) => page.evaluate(`history.pushState({}, "", ${JSON.stringify(path)})`);
    await visit(page, "/");
    for (const { path } of signed_in) {
      await open(path);
      await settled(page);
    }
    // On this page, nothing but requests to the server may count as a response of the server.
    await open("/settings");
    await settled(page);
    await it.server.stop();
    await page.locator("[data-outage]").waitFor();
    await open("/");
    await page.getByText("Out of date: the server is not responding").waitFor();
    await page.getByRole("link", { name: /^\d+ warning incident/ }).waitFor();
    for (const { name, path } of signed_in)
      await each.test(name, async () => {
        await open(path);
        await page.locator("main[data-stale]").waitFor();
        await settled(page);
        await assertWhole(page);
      });
  });
});
