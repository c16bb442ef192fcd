import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000 };

test("a real agent rolls back to its previous release, or to none, even if it is killed", LIMIT, async () => {
  await using server = await ServerProcess.start({ args: ["--limit", "token_requests_per_minute=100000"] });
  const { api } = await server.org("Rollback");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using robot = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1" });
  const robot_id = await robot.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  // This robot is enrolled but never connects, so a deployment to the fleet stays in progress.
  const guest = { key, public_key: randomBytes(32).toString("base64") };
  const enrolled = await fetch(`${server.url}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(guest),
  });
  assert.equal(enrolled.status, 201);
  for (const tag of ["one", "two"]) await pushBundle(api, tag, await appBundle());

  const deploy = async (release: string, target: { robot_id: string } | { fleet_id: string }): Promise<string> =>
    (await api.createDeployment({ body: { release, ...target, rollout: { verify_seconds: 1 } }, idempotency_key: randomUUID() })).data.id;
  const ended = (id: string): Promise<string> =>
    until(`deployment ${id} to end`, async () => {
      const { status } = (await api.getDeployment({ params: { id } })).data;
      return isTerminal(status) && status;
    });
  const applied = (id: string): Promise<boolean> =>
    until("the robot to have it", async () => {
      const { items } = await api.listDeploymentTargets({ params: { id }, query: { robot_id } });
      return items[0]?.status === "applied";
    });
  /** Returns the release of the robot's processes, once the server reports the same release. */
  const runs = (): Promise<string> =>
    until("one version to run, or none, and the server to know", async () => {
      const found = [...new Set(robot.workloads().map(({ env }) => env.ROAMFLEET_RELEASE ?? ""))];
      const { current_release } = (await api.getRobot({ params: { id: robot_id } })).data;
      const one = found.length === 0 ? undefined : found[0];
      return found.length <= 1 && one === current_release?.tag && (one ?? "nothing");
    });

  const first = await deploy("one", { fleet_id });
  await applied(first);
  assert.equal(await runs(), "one");
  await api.rollBackDeployment({ params: { id: first } });
  assert.equal(await ended(first), "rolled_back");
  assert.equal(await runs(), "nothing");

  assert.equal(await ended(await deploy("one", { robot_id })), "applied");
  const second = await deploy("two", { fleet_id });
  await applied(second);
  await api.rollBackDeployment({ params: { id: second } });
  await robot.program.kill();
  robot.restart();
  assert.equal(await ended(second), "rolled_back");
  assert.equal(await runs(), "one");

  const third = await deploy("two", { robot_id });
  assert.equal(await ended(third), "applied");
  assert.equal(await runs(), "two");
  const back = (await api.rollBackDeployment({ params: { id: third } })).data;
  assert.equal(back.rollback_of, third);
  assert.equal(await ended(back.id), "applied");
  assert.equal(await runs(), "one");
  assert.equal((await api.getDeployment({ params: { id: third } })).data.status, "applied");
});
