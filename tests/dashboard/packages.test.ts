import assert from "node:assert/strict";
import { test } from "node:test";
import { createPackagesDirectory } from "../../packages/server/src/features/packages/testing/packages-directory.ts";
import { axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

test(
  "shows the installation command and outdated agents if the server hosts packages",
  { skip: NO_BROWSER, timeout: 300_000 },
  async (t) => {
    const packages = await createPackagesDirectory("0.2.0");
    t.after(() => packages[Symbol.asyncDispose]());
    const it = await openDashboard(t, { robots: 2, settings: { packages: packages.directory } });
    const { page } = it;
    const { api } = it.org;
    await api.updateRobot({ params: { id: it.robots[0]!.id }, body: { name: "cart-old" } });

    await t.test("shows the same installation command that rf prints", async () => {
      await visit(page, "/enrollment/new");
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByText("Install the agent on the robot").waitFor();
      const text = await page.locator("main").innerText();
      assert.match(text, new RegExp(`curl -fsSL ${it.url}/install\\.sh \\| sudo sh -s -- --enroll-key rf_enroll_[0-9a-f]{64}\\n`));
      await axe(page);
    });

    await t.test("marks and filters robots whose agent is older than the hosted agent", async () => {
      await visit(page, "/robots");
      const row = page.getByRole("row").filter({ hasText: "cart-old" });
      await row.getByText("outdated").waitFor();
      await page.getByLabel("Agent", { exact: true }).selectOption({ label: "Agent older than 0.2.0" });
      await page.waitForURL(/agent_older_than=0\.2\.0/);
      await row.waitFor();
      await axe(page);
      await row.getByRole("link", { name: "cart-old" }).click();
      await page.getByRole("heading", { name: "Details" }).waitFor();
      await page.getByText("outdated").waitFor();
      await page.getByRole("button", { name: `Copy command rf agents upgrade --robot ${it.robots[0]!.id}` }).waitFor();
      await packages.rewrite("0.1.0");
      await visit(page, "/robots");
      await row.waitFor();
      assert.equal(await page.getByText("outdated").count(), 0);
    });

    await t.test("shows the commands for an installed agent if the server hosts no packages", async () => {
      await packages[Symbol.asyncDispose]();
      await visit(page, "/robots");
      await page.getByRole("row").filter({ hasText: "cart-old" }).waitFor();
      assert.equal(await page.getByLabel("Agent", { exact: true }).count(), 0);
      await visit(page, "/enrollment/new");
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByText("Install as a service on the robot").waitFor();
    });
  },
);
