import assert from "node:assert/strict";
import { test } from "node:test";
import { rollBack, slow } from "@roamfleet/swarm/testing";
import { axe, goTo, NO_BROWSER, openDashboard } from "../harness/browser.ts";

const ROBOTS = 20;

test("creates, controls and compares deployments in the browser", { skip: NO_BROWSER, timeout: 400_000 }, async (t) => {
  const it = await openDashboard(t, { robots: ROBOTS });
  const { server, page } = it;
  const fleet_id = await server.homeFleet();
  const release = await server.release({ tag: "1.4.0" });
  await server.release({ tag: "1.5.0" });
  const before = await server.deploy(release, { fleet_id });
  await server.until("the first release is everywhere", async () => (await server.deployment(before.id)).status === "applied");
  let id = "";

  await t.test("edits the waves of a rollout with a live preview, then deploys the release", async () => {
    await goTo(page, `/deployments/new?release=1.5.0&fleet=${fleet_id}`);
    await page.getByRole("button", { name: "Canary, then all" }).click();
    const summary = page.getByRole("region", { name: "Summary" });
    await summary.getByText(`1 robot, then ${ROBOTS - 1}`).waitFor();
    await summary.getByText("pause if more than 5% fail").waitFor();
    await page.getByRole("button", { name: "All at once" }).click();
    await page.getByText("Advanced settings").click();
    await page.getByRole("button", { name: "Add first wave" }).click();
    await page.getByText("Custom: see the waves").waitFor();
    await page.getByLabel("Size", { exact: true }).selectOption("count");
    await page.getByLabel("Cumulative robots").fill("five");
    await page.getByText("Enter a whole number, 1 or more.").waitFor();
    await page.getByLabel("Cumulative robots").fill("5");
    await page.getByLabel("Soak time").fill("");
    await page.getByText("Require manual promotion").click();
    await page.getByLabel("Soak time").fill("10m");
    await page.getByLabel("Incident gate").selectOption("warning");
    await page.getByLabel("Metric gate").fill("cpu above 90");
    await page.getByText("Enter one per line: NAME mean|max above|below VALUE").waitFor();
    await page.getByLabel("Metric gate").fill("cpu_percent max above 90");
    const gates = "--gate-incidents warning --gate-metric 'cpu_percent max above 90'";
    await page.getByText(`rf deploy 1.5.0 --fleet ${fleet_id} --wave 5 --soak 10m --gate ${gates}`, { exact: true }).waitFor();
    await page.getByText("no new incident of severity warning or above, pause on cpu_percent max above 90").waitFor();
    await axe(page);
    for (const field of ["Soak time", "Metric gate"]) await page.getByLabel(field).fill("");
    await page.getByLabel("Incident gate").selectOption("");
    await page.getByLabel("Planned waves").getByText("up to 5 robots").waitFor();
    await page.getByText(`rf deploy 1.5.0 --fleet ${fleet_id} --wave 5 --gate`, { exact: true }).waitFor();
    await axe(page);
    await page.getByRole("button", { name: `Deploy 1.5.0 to ${ROBOTS} robots` }).click();
    await page.waitForURL(/\/deployments\/dep_/);
    id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  });

  await t.test("runs a wave until its manual gate and shows that promotion is required", async () => {
    await page.getByText("Wave 2 of 2 is awaiting promotion.").waitFor();
    await page.getByRole("button", { name: /^Wave 1 .*passed/ }).waitFor();
    await page.getByRole("button", { name: /^Wave 2 /u }).click();
    await page.waitForURL(/wave=2/);
    const waiting = page.locator("[data-row]", { hasText: "awaiting promotion" }).first();
    await waiting.waitFor();
    await axe(page);
    await waiting.click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("wave 2 waits until someone promotes the deployment").waitFor();
    await dialog.getByText(`rf deployments promote ${id}`).waitFor();
    await axe(page);
    await page.keyboard.press("Escape");
  });

  await t.test("the list shows that a deployment awaits promotion", async () => {
    await goTo(page, "/deployments");
    await page.locator("[data-row]", { hasText: "awaiting promotion" }).first().waitFor();
  });

  await t.test("explains on the page of a robot why it has not installed the release", async () => {
    const [waiting] = [...(await server.targets(id)).values()].filter(({ waiting_for }) => waiting_for === "gate");
    await goTo(page, `/robots/${waiting?.robot_id}`);
    const why = page.getByRole("region", { name: "Why not 1.5.0 yet?" });
    await why.getByText("wave 2 waits until someone promotes the deployment").waitFor();
    await why.getByText("other conditions").click();
    await why.getByText("the robot is connected").waitFor();
    await axe(page);
    await goTo(page, `/deployments/${id}?wave=2`);
  });

  await t.test("finds a robot of a deployment by its name", async () => {
    const [name] = [...(await server.targets(id)).values()].map(({ robot_name }) => robot_name);
    await goTo(page, `/deployments/${id}?q=${encodeURIComponent(name ?? "")}`);
    await page
      .locator("[data-row]", { hasText: name ?? "" })
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
  });

  await t.test("pauses and resumes a deployment, and shows the effect of each action beforehand", async () => {
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByText("wait until the deployment is resumed").waitFor();
    await page.getByRole("dialog").getByText(`rf deployments pause ${id}`).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("emaining robots on hold.").waitFor();
    assert.equal((await server.deployment(id)).status, "paused");
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume", exact: true }).click();
    await page.getByText("Wave 2 of 2 is awaiting promotion.").waitFor();
  });

  await t.test("promotes a wave, shows a failed robot, and rolls back all robots", async () => {
    const waits = [...(await server.targets(id)).values()].filter(({ wave }) => wave === 1);
    for (const robot of it.robots) robot.behave(robot.id === waits[0]?.robot_id ? rollBack() : slow(1), "1.5.0");
    await page.getByRole("button", { name: "Promote", exact: true }).click();
    await page
      .getByRole("dialog")
      .getByText(`${ROBOTS - 5} robots can start immediately.`)
      .waitFor();
    await page.getByRole("button", { name: "Open wave 2" }).click();
    await page.getByRole("columnheader", { name: "Details" }).waitFor();
    await server.until("it has ended", async () => (await server.deployment(id)).status === "failed");
    await page
      .getByRole("main")
      .getByText(/^Failed/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Roll back" }).click();
    await page.getByRole("button", { name: new RegExp(`^Roll back \\d+ robots`) }).click();
    await page.waitForURL((url) => url.pathname.startsWith("/deployments/dep_") && !url.pathname.endsWith(id));
    await page.getByText("Rollback of").waitFor();
    const back = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    await server.until("all are back", async () => (await server.deployment(back)).status === "applied");
    await page.getByText(/^Applied on \d+ robots/).waitFor();
  });

  await t.test("compares two deployments that are selected in the list", async () => {
    await goTo(page, "/deployments");
    const rows = page.locator("[data-row]");
    await rows.nth(1).getByLabel("Select").click();
    await rows.nth(2).getByLabel("Select").click();
    await page.getByRole("button", { name: "Compare 2 of 2" }).click();
    await page.waitForURL(/compare\?a=/);
    await page.getByRole("heading", { name: "Robots with different results" }).waitFor();
    await page.getByRole("rowheader", { name: /^Status/ }).waitFor();
    await axe(page);
  });
});
