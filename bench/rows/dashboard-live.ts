import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ratioOf, type Sample, sample } from "../measure.ts";
import type { Row } from "../row.ts";
import { pushRelease, startSwarm } from "../swarm.ts";
import { Tab } from "../tab.ts";

const ROBOTS = 1_000;
const QUICK_ROBOTS = 100;
/** Maximum concurrent updates. It is small, so that the deployment lasts for the whole measurement. */
const PARALLEL = 10;
const WINDOW_MS = 5_000;
const WINDOWS_MAX = 6;
const LIMIT_WINDOWS = 3;
const GOAL_UPDATES = 2;
const GOAL_CPU_PERCENT = 30;

/** Counts the changes of the page. Changes within 100 ms count as one, because users see them as one. */
const COUNT_UPDATES = `(() => {
  globalThis.updates = 0;
  let counted_at = 0;
  new MutationObserver(() => {
    if (performance.now() - counted_at < 100) return;
    counted_at = performance.now();
    updates++;
  }).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
})()`;

/** Returns the HTML of the page as it is shown, without its programs. */
const SHOWN = `(() => {
  const copy = document.documentElement.cloneNode(true);
  for (const script of copy.querySelectorAll("script, link[rel=modulepreload]")) script.remove();
  return "<!doctype html>" + copy.outerHTML;
})()`;

const replaceEvery = (ms: number): string => `(() => {
  const original = document.querySelector("main");
  setInterval(() => document.querySelector("main").replaceWith(original.cloneNode(true)), ${ms});
})()`;

/** The limit: CPU of a tab that shows the same page without its programs, and replaces all of it by a copy at the same rate. */
async function replacing(tab: Tab, updates_per_second: number, quick: boolean): Promise<Sample> {
  const body = await tab.page.evaluate<string>(SHOWN);
  await tab.page.route("**/copy", (route) => route.fulfill({ contentType: "text/html", body }));
  await tab.page.goto("/copy");
  await tab.page.evaluate(replaceEvery(1_000 / updates_per_second));
  const percents: number[] = [];
  for (let i = 0; i < LIMIT_WINDOWS; i += 1) percents.push((await cpuIn(tab, quick)).percent);
  return sample(percents);
}

/** Waits for one window. Returns its length, and the CPU time of the tab in % of a core. */
async function cpuIn(tab: Tab, quick: boolean): Promise<{ seconds: number; percent: number }> {
  const [started, cpu_s] = [performance.now(), await tab.cpuSeconds()];
  await sleep(quick ? 1_000 : WINDOW_MS);
  const seconds = (performance.now() - started) / 1_000;
  return { seconds, percent: (100 * ((await tab.cpuSeconds()) - cpu_s)) / seconds };
}

export const dashboardLive: Row = {
  name: "dashboard-live",
  area: "dashboard",
  about: `page of a deployment to ${ROBOTS} robots of \`roamfleet swarm\` during the rollout: update rate, and CPU of its tab compared with replacing all of the page by a copy as often`,
  run: async (rig) => {
    const { fleet_id, child } = await startSwarm(rig, rig.quick ? QUICK_ROBOTS : ROBOTS);
    try {
      const release = await pushRelease(rig, 1_024);
      await using tab = await Tab.open(rig);
      const rollout = { max_parallel: PARALLEL };
      const { data } = await rig.api.createDeployment({ body: { release, fleet_id, rollout }, idempotency_key: randomUUID() });
      await tab.page.goto(`/deployments/${data.id}`);
      await tab.page.getByRole("grid").waitFor();
      await tab.page.evaluate(COUNT_UPDATES);
      const [updates, cpu]: [number[], number[]] = [[], []];
      for (let i = 0; i < WINDOWS_MAX; i += 1) {
        const { seconds, percent } = await cpuIn(tab, rig.quick);
        const counted = await tab.page.evaluate<number>("{ const had = updates; updates = 0; had }");
        // Changes after the last robot are not counted.
        if ((await rig.api.getDeployment({ params: { id: data.id } })).data.finished_at !== null) break;
        updates.push(counted / seconds);
        cpu.push(percent);
      }
      if (updates.length === 0) throw new Error("the deployment was over before it was looked at");
      const [often, percent] = [sample(updates), sample(cpu)];
      const limit = await replacing(tab, often.median, rig.quick);
      return [
        {
          ours: often,
          unit: "updates/s",
          figure: often.min.toFixed(1),
          goal: `≥ ${GOAL_UPDATES} a second`,
          met: often.min >= GOAL_UPDATES,
          more_is_better: true,
        },
        {
          part: "CPU of the tab",
          ours: percent,
          limit,
          unit: "% of a core",
          ratio: ratioOf(percent, limit),
          figure: `${percent.max.toFixed(0)} %`,
          goal: `< ${GOAL_CPU_PERCENT} %`,
          met: percent.max < GOAL_CPU_PERCENT,
        },
      ];
    } finally {
      child.kill("SIGKILL");
    }
  },
};
