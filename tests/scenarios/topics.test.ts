import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { NO_ROS1, startRoscore } from "../../packages/agent/src/ros/testing/roscore.ts";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const TIMEOUT = { timeout: 300_000, skip: NO_ROS1 };

/** A latched laser scan with constant content, and a talker at 20 Hz. */
const PUBLISHER = `
import rospy
from std_msgs.msg import String
from sensor_msgs.msg import LaserScan
rospy.init_node("talker")
chatter = rospy.Publisher("/chatter", String, queue_size=10)
scan = rospy.Publisher("/scan", LaserScan, queue_size=1, latch=True)
s = LaserScan(angle_min=-1.5, angle_max=1.5, range_max=30.0)
s.header.frame_id = "laser"
s.ranges = [0.1 * n for n in range(200)]
scan.publish(s)
rate = rospy.Rate(20)
n = 0
while not rospy.is_shutdown():
    chatter.publish("hello %d" % n)
    n += 1
    rate.sleep()
`;

test("rf robots topics shows the same ROS 1 topics as rostopic on the robot", TIMEOUT, async (t) => {
  const roscore = await startRoscore(t);
  await roscore.python(PUBLISHER);
  await using plane = await startPlane({ limits: { health_seconds: 1 } });
  await using robot = await LiveRobot.start(plane, { robot: { ros: { adapters: ["ros1"], ros1_master_uri: roscore.uri } } });
  await using home = await RfHome.make();
  const env = { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: plane.default_org.admin_token };
  const rf = async (...words: string[]): Promise<{ stdout: string; stderr: string }> => {
    const { code, stdout, stderr } = await home.run(["robots", "topics", robot.id, ...words], { env });
    assert.equal(code, 0, stderr);
    return { stdout, stderr };
  };
  await plane.until("the talker's topics", async () => {
    const { stdout } = await rf("list");
    return stdout.includes("/chatter") && stdout.includes("/scan");
  });
  const { topics, adapter, distro } = JSON.parse((await rf("list", "--json")).stdout) as Record<string, unknown>;
  assert.deepEqual([adapter, distro], ["ros1", "debian"]);
  const names = (topics as { name: string }[]).map(({ name }) => name);
  const listed = (await roscore.output("/usr/bin/rostopic", "list", "-p")).trim().split("\n").toSorted();
  assert.deepEqual(names, listed);

  // Compare all fields of one message from rf and from rostopic. rospy counts `seq` per subscriber, and rostopic names the fields of a time
  // differently.
  const [document] = (await rf("echo", "/scan", "--full", "--count", "1")).stdout.split("\n---");
  const ours = parse(document!) as Record<string, unknown>;
  const foreign = parse((await roscore.output("/usr/bin/rostopic", "echo", "-n", "1", "/scan")).split("\n---")[0]!) as Record<
    string,
    unknown
  >;
  assert.deepEqual({ ...ours, header: null }, { ...foreign, header: null });
  assert.equal((ours["ranges"] as unknown[]).length, 200);

  const { stdout } = await rf("echo", "/scan", "--field", "ranges", "--count", "1");
  assert.deepEqual((parse(stdout.split("---")[0]!) as { length: number }).length, 200);
  const said = (await rf("echo", "/chatter", "--field", "data", "--count", "3")).stdout;
  assert.match(said, /^hello \d+\n---\nhello \d+\n---\nhello \d+\n---\n$/);
  const { rate } = JSON.parse((await rf("hz", "/chatter", "--count", "1", "--json")).stdout) as { rate: number };
  assert.ok(rate > 2 && rate < 100, String(rate));

  const health = await plane.until("the snapshot with ROS in it", async () => {
    const { ros } = (await plane.api.getRobotHealth({ params: { id: robot.id } })).data;
    return ros?.topics.includes("/chatter") ? ros : undefined;
  });
  assert.equal(health.adapter, "ros1");
  assert.ok(health.nodes.includes("/talker"));
});
