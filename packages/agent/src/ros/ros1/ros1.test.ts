import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { parse } from "yaml";
import type { RosAdapter, RosMessage } from "../adapter.ts";
import { adapterOptions, eventually } from "../testing/adapter-options.ts";
import { NO_ROS1, type Roscore, startRoscore } from "../testing/roscore.ts";
import { findRos1 } from "./ros1.ts";

/** The master, publishers and tools are written in Python and take seconds to start. */
const TIMEOUT_MS = 300_000;

/** A talker at 20 Hz, and three latched messages that every subscriber gets once. */
const PUBLISHER = `
import rospy
from std_msgs.msg import String, Empty
from sensor_msgs.msg import LaserScan, CompressedImage
rospy.init_node("talker")
chatter = rospy.Publisher("/chatter", String, queue_size=10)
scan = rospy.Publisher("/scan", LaserScan, queue_size=1, latch=True)
image = rospy.Publisher("/camera/image/compressed", CompressedImage, queue_size=1, latch=True)
empty = rospy.Publisher("/empty", Empty, queue_size=1, latch=True)
s = LaserScan(angle_min=-1.5, angle_max=1.5, angle_increment=0.1, time_increment=0.0, scan_time=0.1, range_min=0.05, range_max=30.0)
s.header.stamp = rospy.Time(1700000000, 123456789)
s.header.frame_id = "laser"
s.ranges = [0.1, 2.5, float("inf"), float("nan"), 1e-7]
s.intensities = [47.0] * 3
scan.publish(s)
c = CompressedImage(format="jpeg; k\\u00fchl: [yes] 'no' #\\n second line")
c.header.stamp = rospy.Time(5, 0)
c.data = bytes(range(256)) * 1200
image.publish(c)
empty.publish(Empty())
rate = rospy.Rate(20)
n = 0
while not rospy.is_shutdown():
    chatter.publish("hello %d" % n)
    n += 1
    rate.sleep()
`;

async function connect(t: TestContext, roscore: Roscore): Promise<RosAdapter> {
  // A busy master may answer too late, so the search is repeated, as in the bridge.
  const adapter = await until("the master to be found", () => findRos1(adapterOptions({ ros1_master_uri: roscore.uri })));
  t.after(() => adapter.close());
  return adapter;
}

/** Waits for one message of a topic. */
async function one(adapter: RosAdapter, topic: string): Promise<RosMessage> {
  const came = Promise.withResolvers<RosMessage>();
  const end = await adapter.subscribe(topic, came.resolve);
  try {
    return await came.promise;
  } finally {
    end();
  }
}

/**
 * Formats a message like rostopic: times have `secs` and `nsecs`, byte arrays are lists, NaN and infinities are words. `seq` is omitted, since rospy
 * renumbers it.
 */
function asRostopic(value: unknown): unknown {
  if (ArrayBuffer.isView(value)) return [...(value as Uint8Array)].map(asRostopic);
  if (Array.isArray(value)) return value.map(asRostopic);
  if (typeof value === "number" && !Number.isFinite(value)) return Number.isNaN(value) ? "nan" : "inf";
  if (typeof value !== "object" || value === null) return value;
  const named = Object.entries(value)
    .filter(([name]) => name !== "seq")
    .map(([name, field]) => [{ sec: "secs", nsec: "nsecs" }[name] ?? name, asRostopic(field)]);
  return Object.fromEntries(named);
}

test(
  "decodes messages of a real rospy publisher to the values that rostopic echo shows",
  { timeout: TIMEOUT_MS, skip: NO_ROS1 },
  async (t) => {
    const roscore = await startRoscore(t);
    await roscore.python(PUBLISHER);
    const adapter = await connect(t, roscore);
    for (const [topic, type] of [
      ["/scan", "sensor_msgs/LaserScan"],
      ["/camera/image/compressed", "sensor_msgs/CompressedImage"],
    ] as const) {
      const message = await one(adapter, topic);
      const shown = await roscore.output("/usr/bin/rostopic", "echo", "-n", "1", topic);
      assert.equal(message.type, type);
      assert.deepEqual(asRostopic(message.message), asRostopic(parse(shown.split("\n---")[0]!)));
    }
    const image = (await one(adapter, "/camera/image/compressed")).message as { data: Uint8Array };
    assert.equal(image.data.length, 256 * 1200);
    assert.ok(image.data instanceof Uint8Array);
    assert.deepEqual({ ...((await one(adapter, "/empty")).message as object) }, {});
  },
);

test(
  "lists ROS 1 topics and nodes, and registers the agent as a node only while subscribed",
  { timeout: TIMEOUT_MS, skip: NO_ROS1 },
  async (t) => {
    const roscore = await startRoscore(t);
    await roscore.python(PUBLISHER);
    const adapter = await connect(t, roscore);
    assert.equal(adapter.distro, "debian");
    await eventually(async () => (await adapter.topics()).some(({ name, type }) => name === "/chatter" && type === "std_msgs/String"));
    assert.ok((await adapter.nodes()).includes("/talker"));
    const subscribers = async (): Promise<string> => roscore.output("/usr/bin/rostopic", "info", "/chatter");
    const came: unknown[] = [];
    const end = await adapter.subscribe("/chatter", ({ message }) => came.push((message as { data: string }).data));
    await eventually(() => came.length >= 40);
    const numbers = came.map((text) => Number(/^hello (\d+)$/.exec(String(text))?.[1]));
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => numbers[0]! + index),
    );
    assert.match(await subscribers(), /\/roamfleet_agent_[0-9a-f]{8}/);
    assert.ok(!(await adapter.nodes()).some((name) => name.startsWith("/roamfleet_agent")));
    end();
    await eventually(async () => /roamfleet_agent/.test(await subscribers()), false);
  },
);

test(
  "a ROS 1 subscription waits for its topic and continues when its publisher restarts",
  { timeout: TIMEOUT_MS, skip: NO_ROS1 },
  async (t) => {
    const roscore = await startRoscore(t);
    const adapter = await connect(t, roscore);
    const came: RosMessage[] = [];
    await adapter.subscribe("/chatter", (message) => came.push(message));
    const first = await roscore.python(PUBLISHER);
    await eventually(() => came.length > 0);
    await first.stop();
    came.length = 0;
    await roscore.python(PUBLISHER);
    await eventually(() => came.length >= 5);
    assert.match((came.at(-1)!.message as { data: string }).data, /^hello \d+$/);
  },
);

test("finds no ROS 1 adapter without a server or with a server that is no ROS master", { timeout: TIMEOUT_MS }, async (t) => {
  assert.equal(await findRos1(adapterOptions({ ros1_master_uri: "http://127.0.0.1:1" })), undefined);
  const { createServer } = await import("node:http");
  const web = createServer((_, response) => response.end("<html></html>")).listen(0, "127.0.0.1");
  t.after(() => web.close());
  await eventually(() => web.listening);
  const { port } = web.address() as { port: number };
  assert.equal(await findRos1(adapterOptions({ ros1_master_uri: `http://127.0.0.1:${port}` })), undefined);
});

test("the ROS 1 adapter reports the loss of its ROS master", { timeout: TIMEOUT_MS, skip: NO_ROS1 }, async (t) => {
  const roscore = await startRoscore(t);
  const adapter = await connect(t, roscore);
  await roscore.stop();
  assert.match(await adapter.gone, /ECONNREFUSED|socket hang up|ECONNRESET|did not answer/);
});
