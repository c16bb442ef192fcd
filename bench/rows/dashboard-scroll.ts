import { sample } from "../measure.ts";
import { insertFleet } from "../robots.ts";
import type { Row } from "../row.ts";
import { Tab } from "../tab.ts";

const ROBOTS = 100_000;
const QUICK_ROBOTS = 2_000;
const GOAL_MS = 100;
const ROUNDS = 9;
/** Parts of the loading, each with its longest task. */
const PARTS = 5;
/** Browsers report only longer tasks. */
const REPORTED_MS_MIN = 50;
const TIMEOUT_MS = 300_000;

/** Scrolls down until row number `row` or the last row is shown. Returns the number of rows, or -1 if more rows can be loaded. */
const toRow = (row: number): string => `(async () => {
  const grid = document.querySelector("[role=grid]");
  const frame = () => new Promise(requestAnimationFrame);
  const last = () => Math.max(...[...grid.querySelectorAll("[aria-rowindex]")].map((row) => Number(row.getAttribute("aria-rowindex"))));
  while (grid.getAttribute("aria-rowcount") === "-1" && last() < ${row}) { grid.scrollTop = grid.scrollHeight; await frame(); }
  return grid.getAttribute("aria-rowcount") === "-1" ? -1 : Number(grid.getAttribute("aria-rowcount")) - 1;
})()`;

/** Scrolls from top to bottom in large steps, and back one screen at a time. */
const THROUGH_ALL = `(async () => {
  const grid = document.querySelector("[role=grid]");
  const frame = () => new Promise(requestAnimationFrame);
  const step = grid.scrollHeight / 300;
  grid.scrollTop = 0;
  for (let i = 0; i < 300; i++) { grid.scrollTop += step; await frame(); }
  for (let i = 0; i < 300; i++) { grid.scrollTop -= 600; await frame(); }
})()`;

export const dashboardScroll: Row = {
  name: "dashboard-scroll",
  area: "dashboard",
  about: `the table of ${ROBOTS} robots in Chromium: longest main-thread task while loading it by scrolling, and while scrolling through it`,
  run: async (rig) => {
    const robots = rig.quick ? QUICK_ROBOTS : ROBOTS;
    await insertFleet(rig, robots);
    await using tab = await Tab.open(rig);
    const { page } = tab;
    page.setDefaultTimeout(TIMEOUT_MS);
    await page.goto("/robots");
    await page.getByRole("row").nth(5).waitFor();
    await tab.watchTasks();
    const loading: number[] = [];
    let found = -1;
    for (let i = 1; i <= PARTS; i += 1) {
      found = await page.evaluate<number>(toRow(i === PARTS ? Infinity : (robots * i) / PARTS));
      loading.push(await tab.longestTask());
    }
    if (found < robots) throw new Error(`the table ended after ${found} robots`);
    const scrolling: number[] = [];
    for (let i = 0; i < (rig.quick ? 1 : ROUNDS); i += 1) {
      await page.evaluate(THROUGH_ALL);
      scrolling.push(await tab.longestTask());
    }
    const line = (ours: number[]) => {
      const longest = sample(ours.map((ms) => Math.max(ms, REPORTED_MS_MIN)));
      const figure = longest.max === REPORTED_MS_MIN ? `none above ${REPORTED_MS_MIN} ms` : `${longest.max.toFixed(0)} ms`;
      return { ours: longest, unit: "ms", figure, goal: `≤ ${GOAL_MS} ms`, met: longest.max <= GOAL_MS };
    };
    return [line(scrolling), { part: "while loading", ...line(loading) }];
  },
};
