import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Role } from "@roamfleet/protocol";
import type { SimulatedRobot } from "@roamfleet/swarm";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { HarnessOrg } from "./harness-org.ts";
import { CHROMIUM, signIn } from "./chromium.ts";
import { type Harness, type HarnessOptions, startPlane } from "./index.ts";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const WAIT_MS = 60_000;
const FAILURES = new Set(["the build of the dashboard failed", "there is no dashboard; the API works without it"]);

/** For the `skip` of a test: says what is missing, or false. */
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

/** A whole plane with its dashboard, and one browser to look at it. Everything is gone when the test ends. */
export interface Dashboard {
  /** The plane: robots, releases, deployments are made by it. */
  server: Harness;
  /** Where the dashboard is, without a slash at the end. */
  url: string;
  org: HarnessOrg;
  robots: SimulatedRobot[];
  /** Signed in, and shows nothing yet: `page.goto("/robots")`. */
  page: Page;
  /** A page in a separate browser profile, signed in with a token of that role; undefined: signed out. */
  as(role: Role | undefined, look?: Look): Promise<Page>;
  /** What browsers may say from now on without failing the test, such as /status of 403/. */
  allow(expected: RegExp): void;
  /** Fails when a page said something that was not allowed; the end of the test looks too. */
  assertQuiet(): void;
}

/**
 * Starts a plane that serves the dashboard and opens Chromium. Exceptions, errors on the console, violations of the policy and
 * answers that no page may cause (400, 405, 422, 5xx) fail the test. Once per file, with subtests: both take a second.
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
    // Of its pages, and of what is asked beside them.
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
    // A picture, or a look at colours, in the middle of a transition says nothing.
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
  });

/** Nothing that keeps people out who cannot see, hear or point well; on the page as it stands once it is drawn. */
export async function axe(page: Page): Promise<void> {
  await page.evaluate(readFileSync(AXE, "utf8"));
  let told: string[] = [];
  const isWell = async (): Promise<boolean> => (told = await violations(page)).length === 0;
  await until("an accessible page", isWell, { detail: () => `${page.url()}\n${told.join("\n")}` });
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

/** The page is no wider than its window, so that it needs no horizontal scrolling. */
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

/** The elements that stick out furthest, innermost first. */
const widest = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    let found = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1);
    found = found.filter((one) => !found.some((other) => other !== one && one.contains(other))).slice(0, 3);
    return found.map((one) => one.outerHTML.slice(0, 160));
  })()`);

/** What Chromium drops its connections for: another test of this machine made or took away a network. */
const NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED";

/** Loads a page of the dashboard, again when Chromium dropped it. */
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

/** A page of the dashboard that has loaded: its heading is there and nothing is loading any more. */
export async function visit(page: Page, path: string): Promise<void> {
  await goTo(page, path);
  await settled(page);
}

/** The page has a heading or says what is wrong, and nothing on it is a placeholder any more. */
export async function settled(page: Page): Promise<void> {
  await page.locator("h1, [role=alert]").first().waitFor();
  await page.locator("[data-skeleton], [aria-busy=true]").first().waitFor({ state: "detached" });
}

/** What pages said that no page may say. */
class Problems {
  readonly #found: string[] = [];
  readonly #allowed: RegExp[] = [];

  watch(page: Page): void {
    page.on("pageerror", (error) => this.#add(`${page.url()}: ${error.stack ?? error.message}`));
    page.on("console", (message) => {
      // What the browser drops it asks for again.
      if (message.type() !== "error" || message.text().includes(NETWORK_CHANGED)) return;
      const { url } = message.location();
      // Chromium reports every answer of 4xx; which are wrong is decided below.
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
    assert.deepEqual(this.#found.splice(0), [], "what pages said that no page may say");
  }

  #add(problem: string): void {
    if (!this.#allowed.some((expected) => expected.test(problem))) this.#found.push(problem);
  }
}
