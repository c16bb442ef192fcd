import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_ROS1, startRoscore } from "../../packages/agent/src/ros/testing/roscore.ts";
import { RosbridgeServer } from "../../packages/agent/src/ros/testing/rosbridge-server.ts";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { opened } from "../spec/web-socket.ts";

const TIMEOUT = { timeout: 300_000, skip: NO_ROS1 };

/** A ROS 1 publisher at 20 Hz, on a separate topic and on one that ROS 2 publishes too. */
const PUBLISHER = `
import rospy
from std_msgs.msg import String
rospy.init_node("talker")
chatter = rospy.Publisher("/chatter", String, queue_size=10)
status = rospy.Publisher("/status", String, queue_size=10)
rate = rospy.Rate(20)
n = 0
while not rospy.is_shutdown():
    chatter.publish("hello %d" % n)
    status.publish("of ROS 1")
    n += 1
    rate.sleep()
`;

test("a robot shows topics of ROS 1 and ROS 2 independently, even if one of them ends", TIMEOUT, async (t) => {
  const roscore = await startRoscore(t);
  await roscore.python(PUBLISHER);
  const ros2 = await RosbridgeServer.start(t, "/rosapi/");
  for (const name of ["/pose", "/status"]) ros2.topics.set(name, { type: "std_msgs/msg/String", typedefs: [] });
  ros2.nodes.push("/driver");
  let published = 0;
  const publisher = setInterval(() => {
    ros2.publish("/pose", { data: `pose ${(published += 1)}` });
    ros2.publish("/status", { data: "of ROS 2" });
  }, 50);
  t.after(() => clearInterval(publisher));
  await using plane = await startPlane({ limits: { health_seconds: 1 } });
  await using robot = await LiveRobot.start(plane, {
    robot: { ros: { adapters: ["rosbridge", "ros1"], rosbridge_url: ros2.url, ros1_master_uri: roscore.uri } },
  });
  await using home = await RfHome.make();
  const env = { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: plane.default_org.admin_token };
  const rf = async (...words: string[]): Promise<{ stdout: string; stderr: string }> => {
    const { code, stdout, stderr } = await home.run(["robots", ...words], { env });
    assert.equal(code, 0, stderr);
    return { stdout, stderr };
  };
  const topics = (...words: string[]) => rf("topics", robot.id, ...words);
  const echoed = (topic: string) =>
    opened(`${plane.url}/api/robots/${robot.id}/ros/topics/echo?topic=${topic}&token=${plane.default_org.admin_token}`);

  // The route returns 404 before the robot's first report.
  const health = () =>
    plane.api.getRobotHealth({ params: { id: robot.id } }).then(
      ({ data }) => data,
      () => undefined,
    );
  const both = await plane.until("both adapters in the health snapshot", async () => {
    const { ros, ros_adapters } = (await health()) ?? {};
    return ["/chatter", "/pose"].every((name) => ros?.topics.includes(name)) && ros_adapters;
  });
  assert.deepEqual(
    both.map(({ name, state, distro }) => [name, state, distro]),
    [
      ["rosbridge", "connected", "humble"],
      ["ros1", "connected", "debian"],
    ],
  );

  const { stdout, stderr } = await topics("list");
  assert.match(stdout, /^TOPIC +TYPE +ADAPTER$/m);
  assert.match(stdout, /^\/chatter +std_msgs\/String +ros1$/m);
  assert.match(stdout, /^\/status +std_msgs\/msg\/String +rosbridge\n\/status +std_msgs\/String +ros1$/m);
  assert.match(stderr, /topics, via rosbridge \(humble\), ros1 \(debian\)\n\/status has several types/);
  assert.equal((await topics("echo", "/status", "--field", "data", "--count", "1")).stdout, "of ROS 2\n---\n");
  const typed = ["--type", "std_msgs/String", "--field", "data", "--count", "1"];
  assert.equal((await topics("echo", "/status", ...typed)).stdout, "of ROS 1\n---\n");
  const { rate } = JSON.parse((await topics("hz", "/pose", "--count", "1", "--json")).stdout) as { rate: number };
  assert.ok(rate > 2 && rate < 100, String(rate));

  assert.match((await rf("inspect", robot.id)).stdout, /ROS ros1 +connected, debian: \d+ nodes?, \d+ topics/);

  const [pose, chatter] = [await echoed("/pose"), await echoed("/chatter")];
  await plane.until("both streams", () => pose.frames.length > 0 && chatter.frames.length > 0);
  await roscore.stop();
  await plane.until("the end of ROS 1 in the health snapshot", async () => {
    const { ros, ros_adapters } = (await health()) ?? {};
    return ros?.adapter === "rosbridge" && ros_adapters?.[1]?.state === "lost" && ros_adapters[1].reason !== undefined;
  });
  const so_far = pose.frames.length;
  await plane.until("more of ROS 2", () => pose.frames.length > so_far + 20);
  pose.ws.close();
  chatter.ws.close();
  const numbers = pose.frames.map((frame) => {
    const { message, skipped = 0 } = JSON.parse(String(frame)) as { message: { data: string }; skipped?: number };
    return { number: Number(message.data.slice("pose ".length)), skipped };
  });
  for (const [i, { number, skipped }] of numbers.entries())
    if (i > 0) assert.equal(number, numbers[i - 1]!.number + skipped + 1, "none is missing");
  const after = await topics("list");
  assert.match(after.stderr, /via rosbridge \(humble\)\nros1 lost: /);
});
