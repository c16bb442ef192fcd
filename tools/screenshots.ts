import { mkdir } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { type Browser, chromium, type Page } from "playwright-core";
import { root } from "../bin/launch.mjs";
import { type LivePage, startLiveScene } from "../tests/dashboard/live-scene.ts";
import { makeScene } from "../tests/dashboard/scene.ts";
import { settled, type Theme } from "../tests/harness/browser.ts";
import { CHROMIUM, signIn } from "../tests/harness/chromium.ts";
import { globalSetup, globalTeardown } from "../tests/harness/global-setup.ts";
import { startPlane } from "../tests/harness/index.ts";
import { ensureDebianPackages } from "./debian.ts";

/** `npm run screenshots`: takes pictures of the dashboard with the data of a typical org. */

/** States in which pages are shown: with data, of a new org, while every request but that of the session fails, and during an outage. */
const STATES = ["data", "empty", "failing", "stale"] as const;
type State = (typeof STATES)[number];
const SIZES = { wide: { width: 1_440, height: 900 }, narrow: { width: 390, height: 844 } };
interface View {
  theme: Theme;
  size: keyof typeof SIZES;
}
const VIEWS: readonly View[] = (["light", "dark"] as const).flatMap((theme) =>
  (["wide", "narrow"] as const).map((size) => ({ theme, size })),
);
/** Pictures in the README and the guide: the pages of the scene, and their files. */
const SHOWN: readonly { page: string; theme: Theme; file: string }[] = [
  { page: "overview", theme: "dark", file: "dashboard-overview.png" },
  { page: "deployment", theme: "light", file: "dashboard-deployment.png" },
  { page: "robot", theme: "dark", file: "dashboard-robot.png" },
  { page: "metrics", theme: "light", file: "dashboard-metrics.png" },
];
/** Delay before a screenshot is taken, in which live values and charts are drawn. */
const DRAWN_AFTER_MS = 800;

const { values } = parseArgs({
  options: {
    all: { type: "string" },
    only: { type: "string" },
    state: { type: "string", default: "data" },
    help: { type: "boolean", default: false },
  },
});
const state = STATES.find((one) => one === values.state);
if (values.help || state === undefined) {
  process.stdout.write(`npm run screenshots [-- --all DIR [--only PART] [--state ${STATES.join("|")}]]

Without options: the pictures of the README and the guide, into docs/images. With --all: every page, light and dark, wide and narrow, into DIR;
--only takes those whose name contains PART. --state shows them with data (the default), empty, with failing requests, or after the server stopped.
`);
  process.exit(values.help ? 0 : 1);
}

await ensureDebianPackages((line) => process.stderr.write(`roamfleet: ${line}\n`));
if (CHROMIUM === undefined) throw new Error("Chromium is not installed");
await globalSetup();
try {
  await using server = await startPlane({ settings: { dashboard: true } });
  const scene = await makeScene(server);
  await using live = await startLiveScene(server);
  const pages: readonly Shown[] = [...scene.pages.filter(({ name }) => !live.pages.some((page) => page.name === name)), ...live.pages];
  await using browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const open = (view: View, org = server.default_org): Promise<Page> => openView(browser, server.url, org.admin_token, view);
  if (values.all === undefined) {
    for (const { page: name, theme, file } of SHOWN) {
      const page = await open({ theme, size: "wide" });
      for (const shown of pages.filter((one) => one.name === name)) await take(page, shown, path.join(root, "docs", "images", file));
    }
  } else {
    const directory = path.resolve(values.all);
    await mkdir(directory, { recursive: true });
    const org = state === "empty" ? await server.org() : server.default_org;
    const views = await Promise.all(VIEWS.map(async (view) => ({ ...view, page: await open(view, org) })));
    const wanted = [...pages, { name: "sign-in", path: "/sign-in" }].filter(
      ({ name, path: at }) => name.includes(values.only ?? "") && isShownIn(state, at),
    );
    if (state === "failing") for (const { page } of views) await failRequests(page);
    if (state === "stale") {
      for (const { page } of views) await loadAll(page, wanted);
      await server.stop();
      for (const { page } of views) await page.locator("[data-outage]").waitFor();
    }
    for (const { page, theme, size } of views)
      for (const shown of wanted) {
        const file = path.join(directory, `${shown.name}-${theme}-${SIZES[size].width}.png`);
        await take(page, state === "data" ? shown : { ...shown, prepare: undefined }, file, state === "stale" ? navigate : undefined);
      }
  }
} finally {
  await globalTeardown();
}
// Idle connections to the test databases would keep the process running.
process.exit();

type Shown = Pick<LivePage, "name" | "path"> & { prepare?: LivePage["prepare"] | undefined };

/** Skips the pages of objects in an empty org, and in the failing and stale states those that need no session. */
function isShownIn(shown_state: State, at: string): boolean {
  if (shown_state === "empty") return !/_[0-9a-z]{20}/.test(at);
  return shown_state === "data" || !["/sign-in", "/admin"].includes(at);
}

async function openView(browser: Browser, url: string, token: string, { theme, size }: View): Promise<Page> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: SIZES[size],
    colorScheme: theme,
    reducedMotion: "reduce",
    locale: "en-GB",
  });
  const page = await context.newPage();
  await signIn(page, token);
  return page;
}

async function failRequests(page: Page): Promise<void> {
  const json = { error: { code: "unavailable", message: "the database does not answer" } };
  await page.route(/\/api\/(?!auth\/session|me$)/, (route) => route.fulfill({ status: 503, json }));
}

/** Opens another page without leaving the document. */
async function navigate(page: Page, at: string): Promise<void> {
  await page.evaluate(`history.pushState({}, "", ${JSON.stringify(at)})`);
}

/** Loads the code and the data of all pages into one document. */
async function loadAll(page: Page, pages: readonly Shown[]): Promise<void> {
  await page.goto("/");
  for (const { path: at } of pages) {
    await navigate(page, at);
    await settled(page);
  }
}

async function load(page: Page, at: string): Promise<void> {
  await page.goto(at);
}

/** Writes a picture of a page into a file. Reports an error and continues if the page does not appear. */
async function take(page: Page, { name, path: at, prepare }: Shown, file: string, open = load): Promise<void> {
  try {
    await open(page, at);
    await settled(page);
    await prepare?.(page);
    await page.waitForTimeout(DRAWN_AFTER_MS);
    await page.screenshot({ path: file });
    process.stdout.write(`${path.relative(process.cwd(), file)}\n`);
  } catch (error) {
    process.exitCode = 1;
    process.stderr.write(`${name}: ${(error as Error).message.split("\n")[0]}\n`);
  }
}
