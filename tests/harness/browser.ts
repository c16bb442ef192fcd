import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Role } from "@roamfleet/protocol";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { HarnessOrg } from "./harness-org.ts";
import { CHROMIUM, signIn } from "./chromium.ts";
import { type Harness, type HarnessOptions, startPlane } from "./index.ts";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const WAIT_MS = 60_000;
const FAILURES = new Set(["the build of the dashboard failed", "the dashboard is not available; the API works without it"]);

/** The reason to skip a browser test, or false. */
export const NO_BROWSER: string | false = CHROMIUM === undefined && "Chromium is not installed";

export type Theme = "light" | "dark";

export interface Look {
  theme?: Theme;
  width?: number;
  height?: number;
}

export interface DashboardOptions extends HarnessOptions, Look {
  /** Simulated robots that are online from the start. */
  robots?: number;
  /** Role of the user signed in on `page`; undefined: signed out. Default: admin. */
  role?: Role | undefined;
}

/** A whole plane with its dashboard, and one browser. All are disposed at the end of the test. */
export interface Dashboard {
  /** The plane, for creating robots, releases and deployments. */
  server: Harness;
  /** URL of the dashboard, without a slash at the end. */
  url: string;
  org: HarnessOrg;
  robots: SimulatedRobot[];
  /** A signed-in page without content; use `page.goto("/robots")`. */
  page: Page;
  /** A page in a separate browser profile, signed in with a token of that role; undefined: signed out. */
  as(role: Role | undefined, look?: Look): Promise<Page>;
  /** Allows console messages and errors that match this pattern, for example /status of 403/. */
  allow(expected: RegExp): void;
  /** Fails if a page reported a problem that is not allowed. The end of the test checks this too. */
  assertQuiet(): void;
}

/**
 * Starts a plane that serves the dashboard and opens Chromium. Exceptions, console errors, violations of the content security policy and
 * responses with 400, 405, 422 or 5xx fail the test. Call this once in each file, with subtests, because the plane and Chromium each take a
 * second to start.
 */
export async function openDashboard(t: TestContext, options: DashboardOptions = {}): Promise<Dashboard> {
  if (CHROMIUM === undefined) throw new Error("Chromium is not installed: give the test { skip: NO_BROWSER }");
  const { robots = 0, theme, width, height, settings, ...rest } = options;
  const server = await startPlane({ ...rest, settings: { ...settings, dashboard: true } });
  const own = new AsyncDisposableStack();
  own.use(server);
  const problems = new Problems();
  t.after(async () => {
    await own.disposeAsync();
    problems.assertNone();
  });
  const failed = server.logged.find(({ msg }) => FAILURES.has(String(msg)));
  if (failed !== undefined) throw new Error(`the dashboard could not be built: ${JSON.stringify(failed["output"] ?? failed)}`);
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    timeout: WAIT_MS,
  });
  own.defer(() => browser.close());
  const as = async (role: Role | undefined, look: Look = {}): Promise<Page> => {
    const context = await newContext(browser, server.url, { theme, width, height, ...look });
    // This timeout applies to the pages and requests of the context.
    context.setDefaultTimeout(WAIT_MS);
    const page = await context.newPage();
    problems.watch(page);
    if (role !== undefined) await signIn(page, await server.token({ role }));
    return page;
  };
  return {
    server,
    url: server.url,
    org: server.default_org,
    robots: robots === 0 ? [] : await server.enrollRobots(robots),
    page: await as("role" in options ? options.role : "admin"),
    as,
    allow: (expected) => problems.allow(expected),
    assertQuiet: () => problems.assertNone(),
  };
}

const newContext = (
  browser: Browser,
  url: string,
  { theme = "light", width = 1_440, height = 900 }: { [K in keyof Look]: Look[K] | undefined },
): Promise<BrowserContext> =>
  browser.newContext({
    baseURL: url,
    viewport: { width, height },
    colorScheme: theme,
    // Screenshots and checks of colors must not run during a transition.
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
  });

/** Fails if axe finds accessibility violations on the rendered page. */
export async function axe(page: Page): Promise<void> {
  await page.evaluate(readFileSync(AXE, "utf8"));
  let found: string[] = [];
  const isAccessible = async (): Promise<boolean> => (found = await violations(page)).length === 0;
  await until("an accessible page", isAccessible, { detail: () => `${page.url()}\n${found.join("\n")}` });
}

async function violations(page: Page): Promise<string[]> {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const found = await page.evaluate<{ violations: Violation[] }>(
    `axe.run(document, { runOnly: ${JSON.stringify(tags)}, resultTypes: ["violations"] })`,
  );
  return found.violations.map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n${nodes.map(({ html, failureSummary }) => `  ${html.slice(0, 300)}\n    ${failureSummary}`).join("\n")}`,
  );
}

interface Violation {
  id: string;
  help: string;
  nodes: { html: string; failureSummary: string }[];
}

/** Fails if the page is wider than its window and would need horizontal scrolling. */
export async function assertFits(page: Page): Promise<void> {
  let what = "";
  const fits = async (): Promise<boolean> => {
    const [wide, window] = await page.evaluate<[number, number]>("[document.documentElement.scrollWidth, window.innerWidth]");
    if (wide <= window) return true;
    what = `${page.url()} is ${wide} px wide in a window of ${window} px: ${(await widest(page)).join(" ← ")}`;
    return false;
  };
  await until("a page that fits its window", fits, { detail: () => what });
}

/** Returns the elements that extend beyond the window, innermost first. */
const widest = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    let found = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
    found = found.filter((one) => !found.some((other) => other !== one && one.contains(other))).slice(0, 3);
    return found.map((one) => one.outerHTML.slice(0, 160));
  })()`);

/** Chromium drops its connections with this error when another test on this machine adds or removes a network. */
const NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED";

/** Loads a page of the dashboard, and again if Chromium dropped the connection. */
export async function goTo(page: Page, path: string): Promise<void> {
  const load = (): Promise<boolean> =>
    page.goto(path).then(
      () => true,
      (error: unknown) => {
        if (String(error).includes(NETWORK_CHANGED)) return false;
        throw error;
      },
    );
  await until(`${path} to load`, load);
}

/** Opens a page of the dashboard and waits until it has loaded. */
export async function visit(page: Page, path: string): Promise<void> {
  await goTo(page, path);
  await settled(page);
}

/** Waits until the page shows a heading or an error, and no placeholder. */
export async function settled(page: Page): Promise<void> {
  await page.locator("h1, [role=alert]").first().waitFor();
  await page.locator("[data-skeleton], [aria-busy=true]").first().waitFor({ state: "detached" });
}

/** Collects problems that pages reported. */
class Problems {
  readonly #found: string[] = [];
  readonly #allowed: RegExp[] = [];

  watch(page: Page): void {
    page.on("pageerror", (error) => this.#add(`${page.url()}: ${error.stack ?? error.message}`));
    page.on("console", (message) => {
      // Ignore dropped requests, because the browser repeats them.
      if (message.type() !== "error" || message.text().includes(NETWORK_CHANGED)) return;
      const { url } = message.location();
      // Ignore messages about 4xx responses, which Chromium reports for all of them. Wrong statuses are checked below.
      if (message.text().startsWith("Failed to load resource") && new URL(url || page.url()).pathname.startsWith("/api/")) return;
      this.#add(`${page.url()}: ${message.text()} (${url})`);
    });
    page.on("response", (response) => {
      const status = response.status();
      if ([400, 405, 413, 415, 422].includes(status) || status >= 500)
        this.#add(`${page.url()}: ${response.request().method()} ${response.url()} was answered ${status}`);
    });
  }

  allow(expected: RegExp): void {
    this.#allowed.push(expected);
  }

  assertNone(): void {
    assert.deepEqual(this.#found.splice(0), [], "problems that pages reported");
  }

  #add(problem: string): void {
    if (!this.#allowed.some((expected) => expected.test(problem))) this.#found.push(problem);
  }
}
