import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { axe, NO_BROWSER, openDashboard, settled, visit } from "../harness/browser.ts";
import { makeScene } from "./scene.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

test("pages show errors and keep the data that is still valid", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { offline } = await makeScene(it.server, { robots: 2 });
  const { page } = it;

  await t.test("shows an error for a robot that does not exist", async () => {
    await visit(page, "/robots/rob_00000000000000000000000000");
    await page.getByRole("alert").first().waitFor();
  });

  await t.test("reads the session once, and again when the window gets focus", async () => {
    await visit(page, "/robots");
    // Count events that cause another read: the browser focuses the page late, or drops a request because another test changes the
    // machine's network.
    await page.evaluate(
      "window.focus_events = 0; for (const name of ['focus', 'visibilitychange']) window.addEventListener(name, () => (window.focus_events += 1))",
    );
    let reads = 0;
    let dropped = 0;
    page.on("requestfailed", () => (dropped += 1));
    page.on("request", (request) => {
      if (request.method() === "GET" && new URL(request.url()).pathname === "/api/auth/session") reads += 1;
    });
    for (const name of ["Fleets", "Sites", "Releases"]) {
      await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { name, exact: true }).first().waitFor();
    }
    assert.ok(reads <= dropped + Number(await page.evaluate("window.focus_events")), `${reads} reads without a reason`);
    const first = reads;
    await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))");
    await until("the session to be read", () => reads > first);
    const before = reads;
    // If the window gets the focus while a read is in flight, no second read starts.
    await until("the session to be read again", async () => {
      await page.evaluate("window.dispatchEvent(new Event('focus'))");
      return reads > before;
    });
    const viewer = await it.as("viewer");
    await visit(viewer, "/account");
    await viewer.locator("main").getByRole("button", { name: "Sign out" }).click();
    await viewer.getByRole("heading", { name: "Sign in to Roamfleet" }).waitFor();
  });

  await t.test("ignores unknown and invalid parameters of a URL", async () => {
    const bad = "utm_source=mail&status=lost&role=owner&kind=&since=soon&until=5&q=%20&app=No%20App&label=zone&wave=0&from=x&level=loud";
    const tabs = ["timeline", "logs"].map((tab) => `/robots/${offline.id}/${tab}`);
    for (const path of ["/robots", "/deployments", "/releases", "/users/tokens", "/audit", ...tabs]) {
      await visit(page, `${path}?${bad}`);
      assert.equal(await page.getByRole("alert").count(), 0, path);
      assert.equal(await page.getByText(/^No matching/).count(), 0, path);
    }
  });

  await t.test("shows an offline robot as offline and disables its live tabs", async () => {
    await visit(page, `/robots/${offline.id}`);
    await page.locator("main").getByText("offline", { exact: false }).first().waitFor();
    await axe(page);
    for (const tab of ["logs", "camera", "topics", "shell"]) {
      await visit(page, `/robots/${offline.id}/${tab}`);
      await page
        .locator("main")
        .getByText(/offline|not connected|no link/i)
        .first()
        .waitFor();
    }
  });

  await t.test("shows viewers an error on pages that only admins may open", async () => {
    const viewer = await it.as("viewer");
    for (const path of ["/users", "/audit"]) {
      await visit(viewer, path);
      await viewer.getByText("You don't have access").first().waitFor();
      await axe(viewer);
    }
  });

  await t.test("shows outdated data with a notice while the server is down, and updates it afterwards", async () => {
    it.allow(/was answered 5\d\d|ERR_|Failed to load|net::/);
    await visit(page, "/robots");
    await page.getByText("cart-01").first().waitFor();
    await page.getByText("Live", { exact: true }).first().waitFor();
    await it.server.stop();
    await page.getByText("Live", { exact: true }).first().waitFor({ state: "detached" });
    await page.getByText("cart-01").first().waitFor();
    await it.server.restart();
    await page.getByText("Live", { exact: true }).first().waitFor({ timeout: 60_000 });
    await settled(page);
  });
});
