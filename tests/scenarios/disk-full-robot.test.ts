import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle, STAYS } from "../processes/app-bundle.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SmallDisk } from "../processes/small-disk.ts";

const LIMIT = { timeout: 300_000 };
const DISK_MB = 160;
/** Free space that is left on the disk: enough for the agent's own files only. */
const LEFT_BYTES = 2 * 1024 * 1024;
const LARGE_BYTES = 12 * 1024 * 1024;

test("a deployment to a robot with a full disk fails once, and the old version keeps running", LIMIT, async (t) => {
  using disk = SmallDisk.mount(DISK_MB);
  if (disk === undefined) return t.skip("needs root to mount a small tmpfs");
  await using server = await ServerProcess.start();
  const { api } = await server.org("Full");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using robot = new AgentProcess({ url: server.url, key: key ?? "", name: "cart", place: disk.directory });
  const robot_id = await robot.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  const old = await pushBundle(api, "old", await appBundle());
  const large = await pushBundle(api, "large", await appBundle(STAYS, {}, [{ name: "map", content: randomBytes(LARGE_BYTES) }]));
  const start = async (release: string): Promise<string> => {
    const body = { release, robot_id, rollout: { verify_seconds: 1 } };
    return (await api.createDeployment({ body, idempotency_key: randomUUID() })).data.id;
  };
  const ended = (id: string) =>
    until(`the deployment ${id} to end`, async () => {
      const { data } = await api.getDeployment({ params: { id } });
      return isTerminal(data.status) && data;
    });
  const deploy = async (release: string) => ended(await start(release));
  assert.equal((await deploy(old)).status, "applied");
  // The script starts and ends child processes. Pids wrap around, so a child may have a lower pid than the script.
  let pids = robot.workloads().map(({ pid }) => pid);
  await until("the children of this moment to be gone", () => {
    const now = new Set(robot.workloads().map(({ pid }) => pid));
    pids = pids.filter((pid) => now.has(pid));
    return pids.length === 1;
  });
  const [script] = pids;
  const runsOld = (): boolean => robot.workloads().some(({ pid, env }) => pid === script && env.ROAMFLEET_RELEASE === "old");

  disk.fill(LEFT_BYTES);
  const failed = await deploy(large);
  const { items: targets } = await api.listDeploymentTargets({ params: { id: failed.id } });
  assert.deepEqual(
    targets.map(({ status, reason }) => [status, reason]),
    [["failed", "insufficient_disk"]],
  );
  assert.ok(runsOld());
  assert.equal(robot.program.running, true);
  const { items: events } = await api.listDeploymentEvents({ params: { id: failed.id }, query: { include: "targets" } });
  assert.equal(events.filter(({ target_status }) => target_status === "failed").length, 1);

  // Without a single free byte the agent cannot store its desired state. It changes nothing, reports the failure, and continues when there
  // is space.
  disk.fill();
  const held = await start(large);
  await robot.program.until("the agent to say so", () => /could not store the desired state.*ENOSPC/.test(robot.program.output));
  assert.ok(runsOld());
  disk.makeRoom();
  assert.equal((await ended(held)).status, "applied");
  assert.deepEqual([...new Set(robot.workloads().map(({ env }) => env.ROAMFLEET_RELEASE))], ["large"]);
});
