import assert from "node:assert/strict";
import { test } from "node:test";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";
import { rollBack } from "@roamfleet/swarm/testing";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { assertFits, axe, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 400_000 };
const ROBOTS = 12;

test("the overview states what is wrong in each situation", LIMIT, async (t) => {
  const it = await openDashboard(t);
  const { page, org, server } = it;
  const seen: string[] = [];
  /** Stages a situation and asserts that the verdict has this tone and these texts. */
  const situation = (name: string, tone: string, texts: readonly (string | RegExp)[], stage: () => Promise<unknown>) =>
    t.test(name, async () => {
      await stage();
      const verdict = page.locator(`[data-verdict=${tone}]`);
      for (const text of texts) await verdict.getByText(text).first().waitFor();
      await axe(page);
      if (tone !== "ok") assert.equal(await page.locator("[data-verdict=ok]").count(), 0);
      seen.push(name);
    });

  await t.test("without robots it shows the first steps", async () => {
    await visit(page, "/");
    await page.getByText("No robots yet").waitFor();
    assert.equal(await page.locator("[data-verdict]").count(), 0);
    seen.push("no robots");
  });
  const { api } = org;
  const fleet_id = await org.fleet({ name: "Carts" });
  const robots = await org.enrollRobots(ROBOTS, { fleet_id });
  const [first] = robots as [SimulatedRobot];

  await situation("all robots online", "ok", ["No problems: all 12 robots online"], async () => visit(page, "/"));

  await situation("an unhealthy robot", "bad", ["1 problem: 1 of 12 robots is unhealthy"], async () => sendHealth(first, "error"));
  await situation("the robot has recovered", "ok", [/No problems/], async () => sendHealth(first, "ok"));

  await situation("one robot offline", "warn", ["Needs attention: 1 of 12 robots is offline"], () => first.disconnect());
  await situation("many robots offline", "bad", ["1 problem: 11 of 12 robots are offline"], () =>
    Promise.all(robots.slice(1, ROBOTS - 1).map((robot) => robot.disconnect())),
  );
  await t.test("the table of fleets shows how many robots of each are online", async () => {
    const row = page.getByRole("region", { name: "State of the fleets" }).getByRole("row", { name: /^Carts/ });
    await row.getByRole("link", { name: "1 of 12" }).waitFor();
  });

  await situation("an incident of the robots that are offline", "bad", ["1 warning incident"], async () => {
    // The default is ten minutes.
    await api.updateAlertRule({ params: { id: await org.defaultRule("robot_offline") }, body: { for_seconds: 0 } });
  });
  await t.test("the incident has one line for all robots, and the navigation counts it", async () => {
    await page
      .getByRole("region", { name: "Open incidents" })
      .getByText(/11 affected/)
      .waitFor();
    await page.getByRole("link", { name: "Incidents 1 open" }).waitFor();
  });
  await situation("an acknowledged incident", "bad", ["1 warning incident, 1 acknowledged"], async () => {
    const [incident] = (await api.listIncidents({ query: { unresolved: true } })).items;
    await api.acknowledgeIncident({ params: { id: incident!.id } });
  });
  await situation("robots have returned, the incident is resolved", "ok", [/No problems: all 12 robots online/], async () => {
    for (const robot of robots.slice(0, ROBOTS - 1)) await robot.connect();
    const [incident] = (await api.listIncidents({ query: { unresolved: true } })).items;
    await api.resolveIncident({ params: { id: incident!.id }, body: {} });
  });

  const release = await org.release({ tag: "nav-1.0" });
  await situation("a rollout that awaits promotion", "warn", ["1 deployment awaiting promotion"], async () => {
    const rollout = { waves: [{ count: 1, gate: "manual" as const }, { percent: 100 }], verify_seconds: 0 };
    await org.deploy(release, { fleet_id }, { rollout });
  });
  const waiting = page.getByRole("region", { name: "Waiting for a decision" });
  await situation("a paused rollout", "warn", ["1 deployment paused"], async () => {
    await waiting.getByRole("button", { name: "Promote" }).waitFor();
    const [deployment] = (await api.listDeployments({})).items;
    await api.pauseDeployment({ params: { id: deployment!.id } });
  });
  await t.test("resumes and promotes a rollout on the overview", async () => {
    await waiting.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await waiting.getByRole("button", { name: "Promote" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Open wave 2" }).click();
    await waiting.waitFor({ state: "detached" });
  });

  await situation(
    "a failed deployment and a failed installation",
    "bad",
    ["1 deployment failed in 7 days", "The last update failed on 1 robot"],
    async () => {
      // Without a previous release of the app, the deployment fails instead of being rolled back.
      first.behave(rollBack(), "arm-1.0");
      await org.deploy(await org.release({ tag: "arm-1.0", app: "arm" }), { robot_id: first.id });
    },
  );
  await situation("a critical incident about the deployment", "bad", ["1 critical incident"], async () => {});
  await t.test("the robot whose installation failed is listed", async () => {
    await page.getByRole("region", { name: "Failed updates" }).getByRole("link").first().waitFor();
  });
  await situation("a config file that was changed on the robot", "bad", ["1 robot with a changed config file"], async () => {
    await api.setConfig({ body: { key: "speed", value: 1 } });
    const { id } = await org.deployConfig({ fleet_id });
    await server.until("the config", async () => (await api.getConfigDeployment({ params: { id } })).data.finished_at !== null);
    first.editConfig("default", "{}\n");
  });
  await situation("a quarantined robot", "bad", ["1 robot quarantined: several machines use the same identity"], async () => {
    await server.plane.db.run(sql`update robot set held_at = now() where org_id = ${org.id} and id = ${first.id}`);
    await visit(page, "/");
  });

  await situation("incidents cannot be loaded", "bad", [/problems/], async () => {
    it.allow(/was answered 503|status of 503/);
    await page.route("**/api/incidents?*", (route) =>
      route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the database does not answer" } } }),
    );
    await visit(page, "/");
  });
  await page.unroute("**/api/incidents?*");

  await situation(
    "the server does not respond",
    "bad",
    ["Out of date: the server is not responding", /The values below are from/],
    async () => {
      it.allow(/ERR_FAILED/);
      // Refuse the stream first: an open one is not a request, so aborting requests would not end it.
      await page.route("**/api/events?*", (route) => route.abort());
      await visit(page, "/");
      await page.locator("[data-verdict=bad]").waitFor();
      await page.route("**/api/**", (route) => route.abort());
    },
  );
  await page.unrouteAll();
  assert.ok(seen.length >= 10, seen.join());

  await t.test("fits a narrow screen in dark mode", async () => {
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator("html[data-theme=dark]").waitFor();
    await visit(page, "/");
    await axe(page);
    await assertFits(page);
  });
});

function sendHealth(robot: SimulatedRobot, status: "ok" | "error"): Promise<void> {
  robot.sendHealth({
    cpu: { percent: 1, load_1m: 1, cores: 4, temperature_celsius: null },
    memory: { used_bytes: 1, total_bytes: 4 },
    disks: [],
    battery: null,
    network: [],
    checks: [{ name: "lidar", status, message: "10 Hz" }],
  });
  return Promise.resolve();
}
