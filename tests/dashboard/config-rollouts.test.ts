import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, goTo, NO_BROWSER, openDashboard } from "../harness/browser.ts";

const ROBOTS = 6;

test("deploys configs in waves in the browser", { skip: NO_BROWSER, timeout: 400_000 }, async (t) => {
  const { server, page, robots } = await openDashboard(t, { robots: ROBOTS });
  const fleet_id = await server.homeFleet();
  const { site_id } = (await server.api.getFleet({ params: { id: fleet_id } })).data;
  for (const { id } of robots.slice(0, 4)) await server.api.updateRobot({ params: { id }, body: { labels: { line: "3" } } });
  await server.api.setConfig({ body: { key: "speed", value: 1, namespace: "nav" } });
  const dialog = page.getByRole("dialog", { name: "Deploy configs" });
  const read = async (id: string) => (await server.api.getConfigDeployment({ params: { id } })).data;
  let id = "";

  await t.test("previews a deployment of configs to a selection in waves, and deploys it", async () => {
    await goTo(page, `/configs?scope=site&scope_id=${site_id}`);
    await page.getByRole("button", { name: "Deploy configs" }).click();
    await dialog.getByText(`Matches ${ROBOTS} robots now.`).waitFor();
    await dialog.getByLabel("Labels").fill("line=3");
    await dialog.getByText("Matches 4 robots now.").waitFor();
    await dialog.getByRole("button", { name: "Careful waves" }).click();
    await dialog.getByText("Pauses at the first failure.").waitFor();
    await dialog.getByRole("button", { name: "Canary, then all" }).click();
    await dialog.getByText("All waves receive the values that are effective when the deployment starts.").waitFor();
    await dialog.getByLabel("Planned waves").getByText("up to 5%").waitFor();
    await dialog.getByText(`rf configs deploy --site ${site_id} --label line=3 --wave 5% --soak 30m`).waitFor();
    await dialog.getByText("Advanced settings").click();
    assert.equal(await dialog.getByText("Install only in a maintenance window").count(), 0);
    assert.equal(await dialog.getByLabel("Verification time").count(), 0);
    await axe(page);
    await dialog.getByRole("button", { name: "Deploy to 4 robots" }).click();
    await page.waitForURL(/\/config-deployments\/cdep_/);
    id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    const { rollout, target_selector } = await read(id);
    assert.deepEqual(target_selector, { site_id, labels: { line: "3" } });
    assert.deepEqual([rollout.waves?.[0]?.percent, rollout.on_failure], [5, "pause"]);
  });

  await t.test("shows the waves of a config deployment, and pauses, resumes and promotes it", async () => {
    await page.getByText("Wave 1 of 2 is complete and soaking.").waitFor();
    await page.getByRole("button", { name: /^Wave 2 /u }).click();
    await page.waitForURL(/wave=2/);
    await page.locator("[data-row]").nth(2).waitFor();
    await axe(page);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByText(`rf configs pause ${id}`).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("emaining robots on hold.").waitFor();
    assert.equal((await read(id)).status, "paused");
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume", exact: true }).click();
    await page.getByText("Wave 1 of 2 is complete and soaking.").waitFor();
    await page.getByRole("button", { name: "Promote", exact: true }).click();
    await page.getByRole("dialog").getByText("3 robots can start immediately.").waitFor();
    await page.getByRole("button", { name: "Open wave 2" }).click();
    await page.getByText("Applied on 4 robots.").waitFor();
    await axe(page);
    assert.equal((await read(id)).status, "applied");
  });

  await t.test("promotes a config deployment on the overview", async () => {
    const rollout = { waves: [{ count: 1, gate: "manual" as const }] };
    const gated = await server.deployConfig({ fleet_id }, { namespace: "nav", rollout });
    await goTo(page, "/");
    await page.getByText("1 config deployment awaiting promotion").first().waitFor();
    const section = page.getByRole("region", { name: "Waiting for a decision" });
    await section.getByRole("link", { name: "Config nav" }).waitFor();
    await axe(page);
    await section.getByRole("button", { name: "Promote" }).click();
    await page.getByRole("button", { name: "Open wave 2" }).click();
    await server.until("the config deployment to end", async () => (await read(gated.id)).status === "applied");
    await section.waitFor({ state: "detached" });
  });

  await t.test("schedules configs for a fleet and cancels the deployment", async () => {
    await goTo(page, `/configs?scope=fleet&scope_id=${fleet_id}`);
    await page.getByRole("button", { name: "Deploy configs" }).click();
    const tomorrow = new Date(server.clock.now().getTime() + 86_400_000).toISOString();
    await dialog.getByLabel("Start at").fill(tomorrow.slice(0, 16));
    await dialog.getByRole("button", { name: `Schedule for ${ROBOTS} robots` }).click();
    await page.waitForURL(/\/config-deployments\/cdep_/);
    await page.getByText("Scheduled.").waitFor();
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Cancel…" }).click();
    await page.getByRole("dialog").getByText("The deployment will not start.").waitFor();
    await page.getByRole("button", { name: "Cancel deployment" }).click();
    await page.getByText("Cancelled: cancelled by a user.").waitFor();
    await axe(page);
  });
});
