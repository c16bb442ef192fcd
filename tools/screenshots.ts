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

const SIZES = { wide: { width: 1_440, height: 900 }, narrow: { width: 390, height: 844 } };
type Size = keyof typeof SIZES;
/** Pictures in the README and the guide: the pages of the scene, and their files. */
const SHOWN: readonly { page: string; theme: Theme; file: string }[] = [
  { page: "overview", theme: "dark", file: "dashboard-overview.png" },
  { page: "deployment", theme: "light", file: "dashboard-deployment.png" },
  { page: "robot", theme: "dark", file: "dashboard-robot.png" },
  { page: "metrics", theme: "light", file: "dashboard-metrics.png" },
];
/** Delay before a screenshot is taken, in which live values and charts are drawn. */
const DRAWN_AFTER_MS = 800;

const { values } = parseArgs({ options: { all: { type: "string" }, only: { type: "string" }, help: { type: "boolean", default: false } } });
if (values.help) {
  process.stdout.write(`npm run screenshots [-- --all DIR [--only PART]]

Without options: the pictures of the README and the guide, into docs/images. With --all: every page, light and dark, wide and narrow, into DIR;
--only takes those whose name contains PART.
`);
  process.exit(0);
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
  const token = server.default_org.admin_token;
  if (values.all === undefined) {
    for (const { page, theme, file } of SHOWN) {
      const wanted = pages.filter(({ name }) => name === page);
      await takeAll(browser, {
        url: server.url,
        token,
        theme,
        size: "wide",
        pages: wanted,
        fileOf: () => path.join(root, "docs", "images", file),
      });
    }
  } else {
    const directory = path.resolve(values.all);
    await mkdir(directory, { recursive: true });
    const wanted = [...pages, { name: "sign-in", path: "/sign-in" }].filter(({ name }) => name.includes(values.only ?? ""));
    for (const theme of ["light", "dark"] as const)
      for (const size of ["wide", "narrow"] as const)
        await takeAll(browser, {
          url: server.url,
          token,
          theme,
          size,
          pages: wanted,
          fileOf: (name) => path.join(directory, `${name}-${theme}-${SIZES[size].width}.png`),
        });
  }
} finally {
  await globalTeardown();
}
// Idle connections to the test databases would keep the process running.
process.exit();

type Shown = Pick<LivePage, "name" | "path"> & Partial<LivePage>;

interface Take {
  url: string;
  token: string;
  theme: Theme;
  size: Size;
  pages: readonly Shown[];
  fileOf: (name: string) => string;
}

async function takeAll(browser: Browser, { url, token, theme, size, pages, fileOf }: Take): Promise<void> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: SIZES[size],
    colorScheme: theme,
    reducedMotion: "reduce",
    locale: "en-GB",
  });
  const page = await context.newPage();
  await signIn(page, token);
  for (const shown of pages) {
    const { name } = shown;
    await take(page, shown, fileOf(name)).then(
      () => process.stdout.write(`${path.relative(process.cwd(), fileOf(name))}\n`),
      (error: Error) => {
        process.exitCode = 1;
        process.stderr.write(`${name}: ${error.message.split("\n")[0]}\n`);
      },
    );
  }
  await context.close();
}

async function take(page: Page, { path: at, prepare }: Shown, file: string): Promise<void> {
  await page.goto(at);
  await settled(page);
  await prepare?.(page);
  await page.waitForTimeout(DRAWN_AFTER_MS);
  await page.screenshot({ path: file });
}
