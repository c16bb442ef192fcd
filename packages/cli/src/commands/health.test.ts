import assert from "node:assert/strict";
import { test } from "node:test";
import { RfHome } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const health = {
  robot_id: "rob_1",
  status: "failing",
  at: "2030-01-01T00:00:00.000Z",
  uptime_seconds: 60,
  cpu: { percent: 12, load_1m: 0.5, cores: 4 },
  memory: { used_bytes: 1, total_bytes: 4 },
  disks: [],
  network: [],
  battery: null,
  ros: { distro: "jazzy", adapter: "dds", nodes: ["/nav"], topics: ["/scan", "/odom"] },
  workloads: [],
  checks: [
    { name: "disk:/", status: "ok", message: "17% used" },
    { name: "app:main", status: "error", message: "ended\nwith 7" },
  ],
};

async function inspect(ros: object | null, more: object = {}): Promise<string[]> {
  await using home = await RfHome.make();
  await using peer = await ScriptedPeer.start(() => ({ body: { data: { ...health, ros, ...more } } }));
  const { code, stdout, stderr } = await home.run(["robots", "inspect", "rob_1"], { env: peer.env });
  assert.equal(code, 0, stderr);
  return stdout.split("\n");
}

test("rf robots inspect prints health checks as a table and a summary of the ROS graph", TIMEOUT, async () => {
  const lines = await inspect(health.ros);
  assert.match(lines.find((line) => line.startsWith("ROS")) ?? "", /^ROS +jazzy via dds: 1 node, 2 topics$/);
  assert.deepEqual(lines.slice(lines.indexOf("") + 1), [
    "CHECK     STATUS  MESSAGE",
    "disk:/    ok      17% used",
    "app:main  error   ended\\nwith 7",
    "",
  ]);
  const bare = await inspect({ distro: null, nodes: [], topics: [] });
  assert.match(bare.find((line) => line.startsWith("ROS")) ?? "", /^ROS +0 nodes, 0 topics$/);
});

test("rf robots inspect lists ROS adapters if several are connected or one is lost", TIMEOUT, async () => {
  const dds = { name: "dds", state: "connected", distro: "jazzy", nodes: 1, topics: 2 };
  const foxglove = { name: "foxglove", state: "lost", reason: "closed with 1006" };
  const rosbridge = { name: "rosbridge", state: "not_found" };
  const ros1 = { name: "ros1", state: "connected", distro: "noetic", nodes: 2, topics: 1 };
  const shown = async (ros: object | null, ...ros_adapters: object[]) =>
    (await inspect(ros, { ros_adapters })).filter((line) => line.startsWith("ROS")).map((line) => line.replaceAll(/ +/g, " "));
  assert.deepEqual(await shown(health.ros, dds, foxglove, rosbridge, ros1), [
    "ROS jazzy via dds: 1 node, 2 topics",
    "ROS dds connected, jazzy: 1 node, 2 topics",
    "ROS foxglove lost: closed with 1006",
    "ROS ros1 connected, noetic: 2 nodes, 1 topic",
  ]);
  assert.deepEqual(await shown(health.ros, dds, rosbridge), ["ROS jazzy via dds: 1 node, 2 topics"]);
  assert.deepEqual(await shown(null, foxglove, rosbridge), ["ROS foxglove lost: closed with 1006"]);
});
