import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { chromium, type Page } from "playwright-core";
import { assertFits, axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { CHROMIUM, signIn } from "../harness/chromium.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };

/** Whether the indicator in the corner reads "Live". Narrow pages have a second indicator. */
const isLive = async (page: Page): Promise<boolean> => (await page.getByText("Live", { exact: true }).count()) > 0;
const isCutOff = async (page: Page): Promise<boolean> => (await page.locator("[data-outage]").count()) > 0;

test("a page shows a server outage, disables its actions, and recovers without a reload", LIMIT, async (t) => {
  await using server = await ServerProcess.start({ nodes: 1, env: { ROAMFLEET_DASHBOARD: "on" } });
  const { api, token } = await server.org("Acme");
  const site = (await api.createSite({ body: { name: "Hall" } })).data;
  const browser = await chromium.launch({ executablePath: CHROMIUM!, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
  t.after(() => browser.close());
  const page = await (await browser.newContext({ baseURL: server.url, viewport: { width: 1_440, height: 900 } })).newPage();
  page.setDefaultTimeout(60_000);
  await signIn(page, token);

  await t.test("disables actions while the server does not respond, and recovers without a reload", async () => {
    await page.goto("/fleets");
    await until("a live page", () => isLive(page));
    await page.evaluate("globalThis.same_page = true");
    process.kill(server.program.child.pid!, "SIGSTOP");
    try {
      await until("the outage to show", () => isCutOff(page));
      assert.equal(await isLive(page), false);
      await page.locator("main[data-stale]").waitFor();
      const action = page.getByRole("button", { name: "New fleet" });
      assert.equal(await action.isDisabled(), true);
      assert.match((await action.getAttribute("title")) ?? "", /until the server responds/);
      await axe(page);
      await page.setViewportSize({ width: 390, height: 844 });
      await assertFits(page);
      await page.setViewportSize({ width: 1_440, height: 900 });
      // Open a page whose code is not loaded yet, so that the browser must request it.
      await page.getByRole("link", { name: "Sites" }).click();
    } finally {
      process.kill(server.program.child.pid!, "SIGCONT");
    }
    await until("a live page", async () => (await isLive(page)) && !(await isCutOff(page)));
    await page.getByRole("heading", { name: "Sites" }).waitFor();
    await page.getByText("Hall").waitFor();
    assert.equal(await page.evaluate("globalThis.same_page"), true);
  });

  await t.test("shows data that changed during a server restart without a reload", async () => {
    await server.program.kill();
    await until("the outage to show", () => isCutOff(page));
    await page.getByText("Hall").waitFor();
    await page.getByRole("link", { name: "Releases" }).click();
    await page.getByRole("link", { name: "Hall" }).click();
    await server.restart();
    await api.updateSite({ params: { id: site.id }, body: { name: "Yard" } });
    await page.getByRole("heading", { name: "Yard" }).waitFor();
    await until("a live page", async () => (await isLive(page)) && !(await isCutOff(page)));
  });
});

test("pages and lists that could not be loaded are loaded when the server responds again", LIMIT, async (t) => {
  const it = await openDashboard(t, { robots: 1 });
  const { page } = it;
  it.allow(/was answered 503|status of 503|the database does not answer|ERR_CONNECTION_REFUSED/);
  const fail = (path: string) =>
    page.route(path, (route) =>
      route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the database does not answer" } } }),
    );
  await fail("**/api/auth/session");
  await page.goto("/robots");
  await page.getByText("the database does not answer").waitFor();
  await fail("**/api/robots?*");
  await page.unroute("**/api/auth/session");
  await page.getByRole("heading", { name: "Robots" }).waitFor();
  await page.locator("main").getByText("the database does not answer").waitFor();
  await page.unroute("**/api/robots?*");
  await it.org.api.updateRobot({ params: { id: it.robots[0]!.id }, body: { name: "cart-17" } });
  await page.getByText("cart-17").waitFor();

  // The server is unreachable when the browser requests the code of a page.
  let attempts = 0;
  await page.evaluate("globalThis.same_page = true");
  await page.route("**/assets/releases-page-*.js", (route) => route.abort("connectionrefused"));
  await page.route(`${it.url}/`, (route) => {
    attempts += 1;
    return route.abort("connectionrefused");
  });
  await page.getByRole("link", { name: "Releases", exact: true }).click();
  await until("a second attempt to load the code", () => attempts >= 2);
  assert.equal(await page.evaluate("globalThis.same_page"), true);
  await page.unroute("**/assets/releases-page-*.js");
  await page.unroute(`${it.url}/`);
  await page.getByRole("heading", { name: "Releases", exact: true }).waitFor();
  assert.equal(await page.evaluate("globalThis.same_page"), true);
});

test("a part of a page whose code could not be loaded leaves the page usable, and appears later", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org } = it;
  it.allow(/ERR_CONNECTION_REFUSED/);
  const { id } = (await org.api.setConfig({ body: { key: "max_speed", value: 1.2 } })).data;
  await org.api.setConfig({ body: { key: "max_speed", value: 1.4 } });
  const refuse = (path: string) => page.route(path, (route) => route.abort("connectionrefused"));
  await visit(page, "/");
  await refuse("**/assets/diff-lines-*.js");
  // The page requests this path to find out whether the server responds.
  await refuse(`${it.url}/`);
  let attempts = 0;
  page.on("requestfailed", (request) => void (attempts += Number(request.url() === `${it.url}/`)));
  await page.evaluate(`history.pushState({}, "", "/configs/${id}")`);
  await until("a second attempt to load the code", () => attempts >= 2);
  await page.getByRole("heading", { name: "default/max_speed" }).waitFor();
  await axe(page);
  await page.unroute("**/assets/diff-lines-*.js");
  await page.unroute(`${it.url}/`);
  await page.locator("bdi", { hasText: "1.2" }).first().waitFor();
});

test("if the server does not have the code of a part, the page reloads once and then states the error", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org } = it;
  it.allow(/ERR_FAILED|dynamically imported module/);
  const { id } = (await org.api.setConfig({ body: { key: "speed", value: 1 } })).data;
  await org.api.setConfig({ body: { key: "speed", value: 2 } });
  let opened = 0;
  page.on("domcontentloaded", () => (opened += 1));
  await page.route("**/assets/diff-lines-*.js", (route) => route.abort("failed"));
  await page.goto(`/configs/${id}`);
  await page.getByText("Failed to fetch dynamically imported module").waitFor();
  assert.equal(opened, 2);
});

test("follows a log live even if the server refuses log cursors, as earlier versions do", LIMIT, async (t) => {
  const it = await openDashboard(t, { robots: 1 });
  const { page } = it;
  const [robot] = it.robots;
  it.allow(/was answered 400|status of 40[04]|WebSocket connection/);
  await page.addInitScript(`{
    const Original = WebSocket;
    globalThis.WebSocket = class extends Original {
      constructor(url, protocols) {
        super(new URL(url).searchParams.has("cursor") ? url.replace("/logs/ws", "/refused/ws") : url, protocols);
      }
    };
  }`);
  // After a refusal, the page requests the same path again to read the reason.
  await page.route(/\/logs\/ws\?.*cursor=/, (route) =>
    route.fulfill({ status: 400, json: { error: { code: "bad_request", message: "unknown query parameter cursor" } } }),
  );
  robot!.log("stored record");
  await visit(page, `/robots/${robot!.id}/logs`);
  const line = (text: string) => page.locator("[data-log-line]", { hasText: text });
  await line("stored record").waitFor();
  robot!.log("live record");
  await line("live record").waitFor();
});

test("an open page stays live without changes, and shows each new health report and its age", LIMIT, async (t) => {
  const it = await openDashboard(t, { robots: 1 });
  const { page } = it;
  const [robot] = it.robots;
  const send = (percent: number): void =>
    robot!.sendHealth({
      cpu: { percent, load_1m: 1, cores: 4, temperature_celsius: null },
      memory: { used_bytes: 1, total_bytes: 4 },
      disks: [],
      battery: null,
      network: [],
      checks: [],
    });
  send(11);
  await visit(page, `/robots/${robot!.id}/health`);
  await page.evaluate(`{
    globalThis.not_live = [];
    new MutationObserver(() => {
      const words = document.querySelector("[role=status][title^='Not live']")?.textContent;
      if (words !== undefined) not_live.push(words);
    }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  }`);
  await page.getByText("11%").first().waitFor();
  send(77);
  await page.getByText("77%").first().waitFor();
  await page.getByText("20 s ago").first().waitFor();
  // When nothing changes, only heartbeats show the page that its connection works.
  assert.deepEqual(await page.evaluate("globalThis.not_live"), []);
});
