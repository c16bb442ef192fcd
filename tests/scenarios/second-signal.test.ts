import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";

test("a second SIGINT or SIGTERM immediately ends a draining server and its database", { timeout: 300_000 }, async () => {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    await using server = await ServerProcess.start({ nodes: 1, args: ["--limit", "drain_seconds=3600"] });
    server.program.child.kill(signal);
    await server.program.until("the server to drain", () => /"msg":"stopping"/.exec(server.program.output)?.[0]);
    server.program.child.kill(signal);
    assert.deepEqual(await server.program.ended, { code, signal: null });
    assert.match(server.program.output, /second signal: ending without waiting for requests/);
    assert.deepEqual(server.processes(), []);
  }
});

test("a second SIGTERM immediately ends an agent that waits for its workload to stop", { timeout: 300_000 }, async () => {
  await using server = await ServerProcess.start({ nodes: 1 });
  const { api } = await server.org("Signals");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using robot = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1", args: ["--stop-workloads"] });
  const robot_id = await robot.program.until("the robot", async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id);
  const asked = path.join(robot.state, "asked-to-stop");
  await pushBundle(api, "stubborn", await appBundle(`trap ": > ${asked}" TERM; while :; do sleep 0.1; done`, { stop_timeout_seconds: 30 }));
  await api.createDeployment({ body: { release: "stubborn", robot_id, rollout: { verify_seconds: 1 } }, idempotency_key: randomUUID() });
  await robot.program.until("its workload", async () => (await api.getRobot({ params: { id: robot_id } })).data.current_release?.tag);
  robot.program.child.kill("SIGTERM");
  await robot.program.until("the workload to be asked to stop", () => existsSync(asked));
  assert.equal(robot.program.running, true);
  robot.program.child.kill("SIGTERM");
  assert.deepEqual(await robot.program.ended, { code: 143, signal: null });
  // End the remaining workload here, because `stop-workloads` would wait for it as long as this agent did.
  for (const { pid } of robot.workloads()) process.kill(pid, "SIGKILL");
});
