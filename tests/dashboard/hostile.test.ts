import assert from "node:assert/strict";
import { test } from "node:test";
import { assertFits, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { provePromise } from "../harness/promise.ts";
import { makeScene } from "./scene.ts";
import { hostileWords, TRAP } from "./words.ts";

const WIDE = { width: 1_440, height: 900 };
const NARROW = { width: 390, height: 844 };
/** Selects elements that exist only if a text was interpreted as HTML. */
const CODE = "#root script, #root iframe, #root [onerror], #root [onload], #root [onmouseover], a[href^='javascript:' i]";
const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

test("every page shows markup, bidirectional text and very long text as plain text", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const words = hostileWords();
  const { pages } = await makeScene(it.server, { words, robots: 4 });
  const { page } = it;
  await page.addInitScript(`globalThis.${TRAP} = (what) => (globalThis.ran ??= []).push(what);`);
  page.on("dialog", (dialog) => assert.fail(`a dialog opened: ${dialog.message()}`));
  let quiet = 0;
  for (const { name, path } of pages) {
    await t.test(name, async () => {
      await page.setViewportSize(WIDE);
      await visit(page, path);
      await page.mouse.move(700, 400);
      await assertFits(page);
      await page.setViewportSize(NARROW);
      await assertFits(page);
      assert.equal(await page.evaluate("globalThis.ran"), undefined, "something ran");
      assert.equal(await page.evaluate(`document.querySelectorAll("${CODE}").length`), 0);
      quiet += 1;
    });
  }
  await t.test("refuses a request from another site that carries the session cookie", async () => {
    const forged = await page.request.post("/api/sites", { data: { name: "forged" }, headers: { origin: "https://evil.example" } });
    assert.equal(forged.status(), 403);
    assert.deepEqual((await it.server.api.listSites({ query: { q: "forged" } })).items, []);
  });
  assert.equal(quiet, pages.length);
  provePromise(
    t,
    15,
    `${words.made} hostile texts on ${pages.length} pages in Chromium, wide and narrow: 0 executions, no page wider than its window; a cross-origin POST is refused`,
  );
});
