import { test } from "node:test";
import { assertFits, axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { makeScene } from "./scene.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 900_000 };

test("every page passes the axe accessibility checks and fits wide and narrow screens", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { pages } = await makeScene(it.server);
  const { page } = it;
  for (const { name, path } of [...pages, { name: "sign-in", path: "/sign-in" }]) {
    await t.test(name, async () => {
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize({ width: 1_440, height: 900 });
      await visit(page, path);
      await axe(page);
      await assertFits(page);
      await page.emulateMedia({ colorScheme: "dark" });
      await page.setViewportSize({ width: 390, height: 844 });
      // The theme changes asynchronously.
      await page.locator("html[data-theme=dark]").waitFor();
      await axe(page);
      await assertFits(page);
    });
  }
});
