import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { sample } from "../measure.ts";
import type { Row } from "../row.ts";
import { pushRelease, startSwarm } from "../swarm.ts";
import { Tab } from "../tab.ts";

const ROBOTS = 1_000;
const QUICK_ROBOTS = 100;
/** Maximum concurrent updates. It is small, so that the deployment lasts for the whole measurement. */
const PARALLEL = 10;
const WINDOW_MS = 5_000;
const WINDOWS_MAX = 6;
const GOAL_UPDATES = 2;
const GOAL_CPU_PERCENT = 30;

/** Counts the changes of the page. Changes at the same moment count as one. */
const COUNT_UPDATES = `(() => {
  globalThis.updates = 0;
  new MutationObserver(() => updates++).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
})()`;

export const dashboardLive: Row = {
  name: "dashboard-live",
  area: "dashboard",
  about: `page of a deployment to ${ROBOTS} robots of \`roamfleet swarm\` during the rollout: update rate and CPU of its tab`,
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
        const [started, cpu_s] = [performance.now(), await tab.cpuSeconds()];
        await sleep(rig.quick ? 1_000 : WINDOW_MS);
        const seconds = (performance.now() - started) / 1_000;
        const counted = await tab.page.evaluate<number>("{ const had = updates; updates = 0; had }");
        // Changes after the last robot are not counted.
        if ((await rig.api.getDeployment({ params: { id: data.id } })).data.finished_at !== null) break;
        updates.push(counted / seconds);
        cpu.push((100 * ((await tab.cpuSeconds()) - cpu_s)) / seconds);
      }
      if (updates.length === 0) throw new Error("the deployment was over before it was looked at");
      const [often, percent] = [sample(updates), sample(cpu)];
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
          unit: "% of a core",
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
