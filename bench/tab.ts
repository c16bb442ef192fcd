import { type Browser, chromium, type Page } from "playwright-core";
import { CHROMIUM, signIn } from "../tests/harness/chromium.ts";
import type { Rig } from "./rig.ts";

/** A tab of Chromium that is signed in to the dashboard, with measurements of its CPU use. */
export class Tab implements AsyncDisposable {
  readonly page: Page;
  readonly #browser: Browser;

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.page = page;
  }

  static async open(rig: Rig): Promise<Tab> {
    if (CHROMIUM === undefined) throw new Error("Chromium is not installed");
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
    });
    const context = await browser.newContext({ baseURL: rig.server.url, viewport: { width: 1_440, height: 900 } });
    const page = await context.newPage();
    await signIn(page, rig.token);
    return new Tab(browser, page);
  }

  /** Starts to record how long each task blocks the page's main thread. */
  async watchTasks(): Promise<void> {
    await this.page.evaluate(`(() => {
      globalThis.tasks_ms = [];
      new PerformanceObserver((list) => tasks_ms.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask" });
    })()`);
  }

  /** Returns the duration of the longest task since the last call, in ms. Browsers report only tasks above 50 ms. */
  longestTask(): Promise<number> {
    return this.page.evaluate<number>("Math.max(0, ...tasks_ms.splice(0))");
  }

  /** Returns the CPU time of all threads of the tab's process, in seconds. */
  async cpuSeconds(): Promise<number> {
    const session = await this.#browser.newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    await session.detach();
    return processInfo.filter(({ type }) => type === "renderer").reduce((sum, { cpuTime }) => sum + cpuTime, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
  }
}
