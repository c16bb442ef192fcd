import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { axe, goTo, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { signIn } from "../harness/chromium.ts";
import { ADMIN_TOKEN } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const secretOf = async (page: Page): Promise<string> => (await page.locator("[data-secret]").textContent()) ?? "";
const button = (page: Page | Locator, name: string): Locator => page.getByRole("button", { name, exact: true });

test(
  "manages an organization in the browser, from its request to the removal of a user",
  { skip: NO_BROWSER, timeout: 400_000 },
  async (t) => {
    const it = await openDashboard(t, { role: undefined });
    const { page } = it;

    await t.test("the service admin approves an organization without storing the admin token in the browser", async () => {
      const asked = await page.request.post("/api/orgs", { data: { name: "Nova Farms", email: "bo@nova.example" } });
      assert.equal(asked.status(), 202);
      await goTo(page, "/admin?status=pending");
      await page.getByLabel("Admin token").fill("not-the-token");
      await button(page, "Continue").click();
      await page.getByRole("alert").waitFor();
      await page.getByLabel("Admin token").fill(ADMIN_TOKEN);
      await button(page, "Continue").click();
      await page.getByText("Nova Farms").waitFor();
      await axe(page);
      await button(page, "Approve").click();
      await button(page.getByRole("dialog"), "Approve").click();
      await page.locator("[data-secret]").waitFor();
      assert.match(await secretOf(page), /^rf_org_/);
      assert.doesNotMatch(
        await page.evaluate<string>("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])"),
        /token|rf_/,
      );
      await axe(page);
      await button(page, "Sign in with this token").click();
      await page.getByText("No robots yet").waitFor();
    });

    await t.test("creates an enrollment key, shows it once, and shows a robot that enrolls with it", async (t) => {
      await visit(page, "/enrollment/new");
      await it.server.until("the one site to be chosen", async () => (await page.getByLabel("Site").inputValue()) === "Site 1");
      await page.getByRole("checkbox", { name: "Trusted" }).click();
      await page.getByText(/^rf keys new .* --no-trusted$/).waitFor();
      await axe(page);
      await page.getByRole("checkbox", { name: "Trusted" }).click();
      await button(page, "Create key").click();
      await page.getByText("Waiting for robots").waitFor();
      const key = await secretOf(page);
      assert.match(key, /^rf_enroll_/);
      await page.getByRole("img", { name: /QR code/ }).waitFor();
      const line = await page.locator("code", { hasText: "rf-agent run" }).textContent();
      assert.equal(line, `rf-agent run --server ${it.url} --enroll-key ${key} --state ./robot-state`);
      await axe(page);
      const robot = await LiveRobot.start(it.server, { org: { enrollmentKey: () => Promise.resolve(key) }, silent: true });
      t.after(() => robot[Symbol.asyncDispose]());
      const joined = page.getByRole("list", { name: "Enrolled robots" });
      await joined.locator(`a[href="/robots/${robot.id}"]`).waitFor();
      await joined.getByText("online").waitFor();
      await page.getByText("1 of 10 robots").waitFor();
      await page.getByRole("link", { name: "Go to fleet" }).click();
      const cell = page.locator(`[data-robot="${robot.id}"]`);
      await cell.focus();
      await page.keyboard.press("Enter");
      await page.waitForURL(`**/robots/${robot.id}`);
    });

    await t.test("revokes an enrollment key and states that enrolled robots are not affected", async () => {
      await visit(page, "/enrollment");
      await page.getByRole("button", { name: /^Actions for key/ }).click();
      await page.getByRole("menuitem", { name: "Revoke…" }).click();
      await page.getByText("The robot that enrolled with this key is not affected.").waitFor();
      await button(page, "Revoke key").click();
      await page.getByRole("grid").getByText("revoked").waitFor();
    });

    await t.test("lets an admin, but no operator, choose whether newly enrolled robots get secrets immediately", async () => {
      await visit(page, "/enrollment/new");
      await page.getByRole("checkbox", { name: "Trusted" }).click();
      await button(page, "Create key").click();
      await page.getByText("Waiting for robots").waitFor();
      const { items } = (await (await page.request.get("/api/enrollment-keys")).json()) as { items: { trusted: boolean }[] };
      assert.deepEqual(
        items.map(({ trusted }) => trusted),
        [false, true],
      );
      const operator = await it.as("operator");
      await visit(operator, "/enrollment/new");
      await button(operator, "Create key").waitFor();
      assert.equal(await operator.getByRole("checkbox", { name: "Trusted" }).count(), 0);
    });

    await t.test("refuses to delete a fleet with robots, and disables its automatic updates", async () => {
      await visit(page, "/fleets");
      await page.getByRole("button", { name: "Actions for Fleet 1" }).click();
      await page.getByRole("menuitem", { name: "Delete…" }).click();
      await page.getByText("This fleet is not empty").waitFor();
      await button(page, "Cancel").click();
      await page.getByRole("button", { name: "Actions for Fleet 1" }).click();
      await page.getByRole("menuitem", { name: "Disable auto-update…" }).click();
      await button(page.getByRole("dialog"), "Disable auto-update").click();
      await page.getByRole("grid").getByText("no auto-update").waitFor();
    });

    await t.test("an invited user can use the dashboard, and is signed out within seconds of being removed", async () => {
      await visit(page, "/users");
      await button(page, "Invite").click();
      await page.getByLabel("Email address").fill("ada@example.org");
      await page.getByLabel("Name", { exact: true }).fill("Ada Lovelace");
      await axe(page);
      await button(page.getByRole("dialog"), "Invite").click();
      await page.locator("[data-secret]").waitFor();
      const token = await secretOf(page);
      assert.match(token, /^rf_user_/);
      await button(page, "Done").click();
      const member = await it.as(undefined);
      await signIn(member, token);
      await visit(member, "/fleets");
      await member.getByText("Fleet 1").waitFor();
      await page.getByRole("button", { name: "Actions for Ada Lovelace" }).click();
      await page.getByRole("menuitem", { name: "Remove…" }).click();
      await button(page, "Remove user").click();
      await member.waitForURL("**/sign-in**");
      await page.getByText("No users yet").waitFor();
    });

    await t.test("a new secret stays visible even if its token is removed from the list", async () => {
      const admin = await it.as("admin");
      const { data } = await it.server.api.createToken({ body: { label: "laptop", role: "viewer" } });
      await visit(admin, "/users/tokens?status=active");
      await admin.getByRole("button", { name: "Actions for token laptop" }).click();
      await admin.getByRole("menuitem", { name: "Rotate…" }).click();
      await button(admin.getByRole("dialog"), "Rotate").click();
      await admin.locator("[data-secret]").waitFor();
      const secret = await secretOf(admin);
      await it.server.api.revokeToken({ params: { id: data.id } });
      await it.server.until("no row", async () => (await admin.locator("[data-row]", { hasText: "laptop" }).count()) === 0);
      assert.equal(await admin.locator("[data-secret]").count(), 1);
      assert.equal(await secretOf(admin), secret);
      await button(admin, "Done").click();
      await admin.locator("[data-secret]").waitFor({ state: "detached" });
    });

    await t.test("filters the audit log by URL, shows an entry and exports the log", async () => {
      await visit(page, "/audit");
      await page.getByRole("checkbox", { name: "Show reads" }).click();
      await page.waitForURL("**/audit?reads=true");
      await page.getByRole("checkbox", { name: "Show reads" }).click();
      await page.getByLabel("Action").selectOption("deleteUser");
      await page.waitForURL("**/audit?action=deleteUser");
      await page.getByRole("grid").getByText("Delete user").click();
      await page.getByRole("dialog").getByText("DELETE /api/users/usr_").waitFor();
      await axe(page);
      await page.keyboard.press("Escape");
      const exported = await page.request.get((await page.getByRole("link", { name: "Export" }).getAttribute("href")) ?? "");
      assert.match(await exported.text(), /"action":"deleteUser"/);
    });

    await t.test("shows viewers the settings without the actions that they may not perform", async () => {
      const viewer = await it.as("viewer");
      await visit(viewer, "/settings");
      await viewer.getByText("Only admins of the whole organization can change settings.").waitFor();
      assert.equal(await button(viewer, "Save").count(), 0);
      await visit(viewer, "/fleets");
      assert.equal(await button(viewer, "New fleet").count(), 0);
      await visit(viewer, "/enrollment");
      assert.equal(await viewer.getByRole("link", { name: "Enroll robots" }).count(), 0);
      await visit(viewer, "/users");
      await viewer.getByText("You don't have access").waitFor();
    });
  },
);
