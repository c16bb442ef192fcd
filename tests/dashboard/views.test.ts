import assert from "node:assert/strict";
import { test } from "node:test";
import type { SavedView } from "@roamfleet/protocol/routes";
import type { Locator, Page } from "playwright-core";
import { assertFits, axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };
const button = (page: Page | Locator, name: string | RegExp): Locator => page.getByRole("button", { name });

/** Opens the menu of views, whose button has this name, and clicks an entry. */
async function choose(page: Page, entry: string, name: string | RegExp = "Views"): Promise<void> {
  await button(page, name).click();
  await page.getByRole("menuitem", { name: entry }).click();
}

/** Saves what the page shows. The page then shows the name of the view. */
async function save(page: Page, name: string): Promise<void> {
  await choose(page, "Save view…");
  const dialog = page.getByRole("dialog", { name: "Save view" });
  await dialog.getByLabel("Name", { exact: true }).fill(name);
  await button(dialog, "Save").click();
  await dialog.waitFor({ state: "detached" });
  await button(page, name).waitFor();
}

/** Returns the views that the user of the page sees. */
const viewsOf = async (page: Page): Promise<SavedView[]> =>
  ((await (await page.request.get("/api/views")).json()) as { items: SavedView[] }).items;

const entries = (page: Page): Promise<string[]> => page.getByRole("menuitem").allInnerTexts();

test("saves, changes, shares and deletes views of pages", LIMIT, async (t) => {
  const it = await openDashboard(t, { robots: 2 });
  const { page, org, server } = it;
  const { api } = org;
  const health = page.getByRole("columnheader", { name: "Health" });

  await t.test("a view has the filters and columns of the page, also after a reload", async () => {
    await visit(page, "/robots?status=online&sort=name");
    await button(page, "Table settings").click();
    await page.getByRole("dialog").getByRole("checkbox", { name: "Health" }).click();
    await page.keyboard.press("Escape");
    await health.waitFor({ state: "detached" });
    await save(page, "Online");
    await axe(page);
    await button(page, "Table settings").click();
    await page.getByText("Part of the view.").waitFor();
    await page.keyboard.press("Escape");
    await choose(page, "Default view", "Online");
    await button(page, "Views").waitFor();
    await page.waitForURL(/\/robots$/);
    await button(page, "Table settings").click();
    await page.getByText("Stored in this browser.").waitFor();
    await page.getByRole("dialog").getByRole("checkbox", { name: "Health" }).click();
    await page.keyboard.press("Escape");
    await health.waitFor();
    await choose(page, "Online");
    await page.waitForURL(/^(?=.*sort=name)(?=.*status=online)/);
    await health.waitFor({ state: "detached" });
    await page.reload();
    await button(page, "Online").waitFor();
    await health.waitFor({ state: "detached" });
  });

  await t.test("shows that filters differ from the view, and saves them or opens the view again", async () => {
    await page.getByRole("combobox", { name: "Status", exact: true }).selectOption("offline");
    await button(page, "Online modified").waitFor();
    await axe(page);
    await choose(page, "Online", "Online modified");
    await page.waitForURL(/status=online/);
    await button(page, "modified").waitFor({ state: "detached" });
    await page.getByRole("combobox", { name: "Status", exact: true }).selectOption("offline");
    await choose(page, "Save changes", "Online modified");
    await page.getByText("View saved").last().waitFor();
    await button(page, "modified").waitFor({ state: "detached" });
    const [view] = await viewsOf(page);
    assert.match(view?.query ?? "", /^sort=name&status=offline&table=/);
  });

  await t.test("the link to a page leaves its view", async () => {
    await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Robots" }).click();
    await button(page, "Views").waitFor();
    await health.waitFor();
  });

  await t.test("a shared view appears for other members, and only operators can change it", async () => {
    const viewer = await it.as("viewer");
    await visit(viewer, "/robots");
    await button(viewer, "Views").click();
    await viewer.getByRole("menuitem", { name: "Default view" }).waitFor();
    assert.deepEqual(
      (await entries(viewer)).filter((text) => text.includes("Online")),
      [],
    );
    await viewer.keyboard.press("Escape");
    await choose(page, "Online");
    await choose(page, "Rename view…", "Online");
    await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("Offline");
    await button(page.getByRole("dialog"), "Rename").click();
    await choose(page, "Share view…", "Offline");
    await axe(page);
    await button(page.getByRole("dialog"), "Share").click();
    await page.getByText("View shared").waitFor();
    await button(viewer, "Views").click();
    await viewer.getByRole("menuitem", { name: /Offline\s*shared/ }).click();
    await viewer.waitForURL(/status=offline/);
    await button(viewer, "Offline").click();
    await viewer.getByRole("menuitem", { name: "Copy link" }).waitFor();
    const may = await entries(viewer);
    for (const action of ["Save changes", "Rename view…", "Share view…", "Stop sharing view…", "Delete view…"])
      assert.ok(!may.includes(action), action);
    await viewer.keyboard.press("Escape");
    await viewer.getByRole("combobox", { name: "Status", exact: true }).selectOption("online");
    await choose(viewer, "Save as new view…", "Offline modified");
    await viewer.getByRole("dialog").getByLabel("Name", { exact: true }).fill("Mine");
    assert.equal(await viewer.getByRole("switch").count(), 0);
    await button(viewer.getByRole("dialog"), "Save").click();
    await button(viewer, "Mine").waitFor();
    assert.deepEqual(
      (await viewsOf(page)).map(({ name }) => name),
      ["Offline"],
    );
    await viewer.context().close();
  });

  await t.test("the form shows that a name is taken", async () => {
    await visit(page, "/robots?q=a");
    await choose(page, "Save view…");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("Offline");
    await dialog.getByRole("switch").click();
    await button(dialog, "Save").click();
    await dialog.getByText("a shared view of robots with the name Offline exists already").waitFor();
    await axe(page);
    await button(dialog, "Cancel").click();
  });

  await t.test("deletes a view and keeps the filters", async () => {
    await visit(page, "/robots");
    await choose(page, "Offline");
    await choose(page, "Delete view…", "Offline");
    await page.getByText("for all members of the organization").waitFor();
    await button(page.getByRole("dialog"), "Delete view").click();
    await button(page, "Views").waitFor();
    assert.match(page.url(), /status=offline/);
    assert.deepEqual(await viewsOf(page), []);
  });

  await t.test("each page with filters saves views, and the palette opens them", async () => {
    const site_id = await org.site("Hall 2");
    const panels = encodeURIComponent(JSON.stringify([{ name: "cpu_percent", group_by: "site" }]));
    const paths = {
      Fleets: `/fleets?site_id=${site_id}`,
      Sites: "/sites?q=Hall",
      Deployments: "/deployments?status=failed&following=true",
      Releases: "/releases?kind=file",
      Incidents: "/incidents?state=all&severity=critical",
      Logs: "/logs?level=error&since=24h",
      Metrics: `/explore?panels=${panels}&range=6h`,
      Audit: "/audit?action=createSite&reads=true",
    };
    for (const [title, path] of Object.entries(paths)) {
      await visit(page, path);
      await save(page, `${title} view`);
    }
    for (const [title, path] of Object.entries(paths)) {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: /^Search/ }).fill(`${title} view`);
      await page.getByRole("option", { name: `${title} view` }).click();
      await button(page, `${title} view`).waitFor();
      const url = new URL(page.url());
      const wanted = new URL(path, page.url());
      assert.equal(url.pathname, wanted.pathname);
      assert.deepEqual([...url.searchParams].toSorted(), [...wanted.searchParams].toSorted());
    }
    assert.equal((await viewsOf(page)).length, Object.keys(paths).length);
  });

  await t.test("moves views that an earlier version stored in the browser", async () => {
    const stored = JSON.stringify([{ name: "Old", search: { health: "failing" } }]);
    await page.evaluate(`localStorage.setItem("roamfleet.robot-views.${org.id}", ${JSON.stringify(stored)})`);
    await visit(page, "/robots");
    await choose(page, "Move 1 view of this browser here");
    await page.getByText("Views moved").waitFor();
    await choose(page, "Old");
    await page.waitForURL(/health=failing/);
    assert.equal(await page.evaluate(`localStorage.getItem("roamfleet.robot-views.${org.id}")`), null);
  });

  await t.test("the menu and its dialogs fit wide and narrow screens, with hostile names", async () => {
    const name = `${"\u202e<b>wide</b>".repeat(7)}${"x".repeat(100)}`;
    await api.createView({ body: { page: "robots", name, query: "status=offline", shared: true } });
    await visit(page, "/robots?status=offline");
    for (const [colorScheme, width, height] of [
      ["light", 1_440, 900],
      ["dark", 390, 844],
    ] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height });
      await button(page, /wide/).click();
      await page.getByRole("menuitem", { name: "Delete view…" }).waitFor();
      await assertFits(page);
      await page.getByRole("menuitem", { name: "Delete view…" }).click();
      await axe(page);
      await assertFits(page);
      await button(page.getByRole("dialog"), "Cancel").click();
    }
    await page.setViewportSize({ width: 1_440, height: 900 });
  });

  await t.test("the page works and the menu states the problem while views cannot be loaded", async () => {
    it.allow(/was answered 503|status of 503/);
    const failing = await it.as("operator");
    await failing.route("**/api/views*", (route) =>
      route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the database does not answer" } } }),
    );
    await visit(failing, "/robots?status=online");
    await button(failing, "Views").click();
    await failing.getByRole("menuitem", { name: "Views not loaded: the database does not answer" }).waitFor();
    await failing.keyboard.press("Escape");
    await axe(failing);
    await server.until("the robots", async () => (await failing.locator("[data-row]").count()) === 2);
    await failing.context().close();
  });
});
