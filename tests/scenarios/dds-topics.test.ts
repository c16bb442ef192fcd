import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { buildWriter, type Namespace, startNamespace, whyNoDds } from "../../packages/agent/src/ros/dds/testing/namespace.ts";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { AgentProcess } from "../processes/agent-process.ts";

const TIMEOUT = { timeout: 300_000, skip: whyNoDds() ?? false };
const IMAGE_BYTES = 300_000;

/**
 * Makes the plane reachable from the namespace at the same address, through a Unix socket. A Unix socket is not tied to a network
 * namespace.
 */
async function exposePlane(t: TestContext, namespace: Namespace, plane: Harness): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-way-"));
  t.after(() => rm(directory, { recursive: true }));
  const file = path.join(directory, "socket");
  const port = Number(new URL(plane.url).port);
  const server = createServer((socket) => {
    const plain = connect(port, "127.0.0.1");
    for (const one of [socket, plain]) one.on("error", () => {});
    socket.pipe(plain).pipe(socket);
  });
  t.after(() => server.close());
  server.listen(file);
  await once(server, "listening");
  const relay = `require("node:net").createServer((socket) => {
    const way = require("node:net").connect(${JSON.stringify(file)});
    for (const one of [socket, way]) one.on("error", () => {});
    socket.pipe(way).pipe(socket);
  }).listen(${port}, "127.0.0.1", () => console.log("open"))`;
  await once(namespace.spawn(process.execPath, ["-e", relay]).stdout, "data");
}

test("rf lists the DDS topics of a robot and prints messages abbreviated or in full", TIMEOUT, async (t) => {
  const [writer, namespace] = [await buildWriter(t), await startNamespace(t)];
  const publisher = namespace.spawn(writer, []);
  await using plane = await startPlane({ limits: { health_seconds: 1 } });
  await using home = await RfHome.make();
  await exposePlane(t, namespace, plane);
  await using agent = new AgentProcess({
    url: plane.url,
    key: await plane.enrollmentKey({ fleet_id: await plane.fleet() }),
    name: "ros-2",
    env: { ROS_DOMAIN_ID: "0", ROS_DISTRO: "humble" },
    within: namespace.within,
  });
  const robot_id = await agent.program.until(
    "the robot",
    async () => (await plane.api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  const env = { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: plane.default_org.admin_token };
  const rf = async (...words: string[]): Promise<unknown> => {
    const { code, stdout, stderr } = await home.run(["robots", "topics", robot_id, ...words, "--json"], { env });
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout.trim().split("\n").at(-1)!) as unknown;
  };
  const ros = await plane.until("ROS in the health snapshot", async () => {
    // The route returns 404 before the first health report. That report may be sent before ROS or one of its nodes is detected.
    const health = await plane.api.getRobotHealth({ params: { id: robot_id } }).catch(() => undefined);
    return (health?.data.ros?.nodes.length ?? 0) > 1 ? (health?.data.ros ?? undefined) : undefined;
  });
  assert.deepEqual([ros.adapter, ros.distro, ros.nodes], ["dds", "humble", ["/camera/driver", "/talker"]]);

  const list = (await rf("list")) as { topics: { name: string; type: string }[]; adapter: string };
  assert.deepEqual([list.adapter, list.topics[0]], ["dds", { name: "/chatter", type: "std_msgs/msg/String", adapter: "dds" }]);
  assert.match(((await rf("echo", "/chatter", "--field", "data", "--count", "2")) as { message: string }).message, /^hello \d+$/);
  assert.deepEqual(((await rf("echo", "/latched", "--count", "1")) as { message: unknown }).message, { data: "kept" });

  const summary = (await rf("echo", "/image", "--count", "1")) as { message: { data: { length: number; first: number[] } } };
  assert.deepEqual([summary.message.data.length, summary.message.data.first.length], [IMAGE_BYTES, 8]);
  const { message: whole } = (await rf("echo", "/image_hasty", "--full", "--count", "1")) as {
    message: { header: { stamp: { sec: number } }; data: { length: number; base64: string } };
  };
  const sent = Uint8Array.from({ length: IMAGE_BYTES }, (_, i) => (i * 7 + whole.header.stamp.sec) & 0xff);
  const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
  assert.equal(sha256(Buffer.from(whole.data.base64, "base64")), sha256(sent));

  publisher.stdin.end();
  await plane.until("their end in the list", async () => ((await rf("list")) as typeof list).topics.length === 0);
});
