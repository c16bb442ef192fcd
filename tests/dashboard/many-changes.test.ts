import { test } from "node:test";
import { rollBack, slow } from "@roamfleet/swarm/testing";
import { NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";

/** Number of robots: more than a batch of events lists individually. */
const ROBOTS = 40;
const STEP_MS = 500;

test("open pages stay current while a deployment changes many robots concurrently", { skip: NO_BROWSER, timeout: 300_000 }, async (t) => {
  const it = await openDashboard(t, { robots: ROBOTS });
  const { server, org, robots, page } = it;
  const fleet_id = await org.homeFleet();
  for (const robot of robots) {
    robot.behave(slow(STEP_MS), "many-1");
    robot.behave(rollBack(), "many-2");
  }
  const release = await org.release({ tag: "many-1" });
  const [list, heat, overview] = [await it.as("viewer"), await it.as("viewer"), await it.as("viewer")];
  await Promise.all([visit(list, "/deployments"), visit(heat, `/fleets/${fleet_id}`), visit(overview, "/")]);
  const { id } = await org.deploy(release, { fleet_id });
  await visit(page, `/deployments/${id}`);
  await server.until("it to be applied", async () => (await org.deployment(id)).status === "applied");
  await page.getByText(`Applied on ${ROBOTS} robots.`).waitFor();
  await server.until("every row on the screen to be applied", async () => {
    const texts = await page.locator("[data-row]").allInnerTexts();
    return texts.length > 0 && texts.every((text) => text.includes("applied"));
  });
  await list.locator("[data-row]", { hasText: "many-1" }).filter({ hasText: "applied" }).waitFor();
  await overview
    .getByRole("link", { name: /many-1 applied/ })
    .getByText(`${ROBOTS} of ${ROBOTS}`)
    .waitFor();
  const second = await org.deploy(await org.release({ tag: "many-2" }), { fleet_id });
  await server.until("all robots to be back", async () => (await org.deployment(second.id)).status === "rolled_back");
  await heat.getByRole("button", { name: `${ROBOTS} last update failed` }).waitFor();
  await overview.getByRole("link", { name: /many-2 rolled back/ }).waitFor();
  await overview.getByRole("link", { name: "0 deployments in progress" }).waitFor();
});
