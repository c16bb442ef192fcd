import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { type Channel, readMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { pino } from "pino";
import { ROBOT_CONFIG_DEFAULT } from "../../config-file/robot-config.ts";
import { RosBridge } from "../../ros/bridge.ts";
import { rosSettings } from "../../ros/settings.ts";
import { eventually } from "../../ros/testing/adapter-options.ts";
import { ScriptedRos } from "../../ros/testing/scripted-adapter.ts";
import { streamSources } from "../index.ts";

const LIMIT = { timeout: 120_000 };
const log = pino({ level: "silent" });

function startRobot(t: TestContext, streams = ROBOT_CONFIG_DEFAULT.streams) {
  const ros = new ScriptedRos();
  const bridge = new RosBridge({ settings: rosSettings({ adapters: ["dds"] }, {}), clock: systemClock, log, finders: { dds: ros.find } });
  t.after(() => bridge.stop());
  const sources = streamSources({
    robot: { ...ROBOT_CONFIG_DEFAULT, streams },
    clock: systemClock,
    log,
    environment: {},
    state_directory: "/nowhere",
    signatures: { requires_signature: false, askRequired: async () => false, onRequired: () => () => {} },
    shells: { source: (channel) => channel.reset(4410, "none") },
    ros: bridge,
  });
  const topics = sources.get("topics");
  const { server, robot } = channelPair({ topics: topics! });
  return { ros, bridge, robot, open: (params: unknown) => server.open("topics", "topics", params) };
}

type Line = { skipped?: number; topic: string; type: string; at: string; message: unknown; note?: string };

async function line(channel: Channel): Promise<Line> {
  const message = await channel.read();
  assert.ok(message, "the channel has ended");
  const { data } = readMessage(message);
  return JSON.parse(Buffer.from(data!).toString()) as Line;
}

async function listed(channel: Channel): Promise<unknown> {
  return readMessage((await channel.read())!).control;
}

test("a topic stream sends the type, time and requested field of each message", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/pose", field: "position.x" });
  await eventually(() => ros.listened, ["/pose"]);
  ros.publish("/pose", { position: { x: 1.5, y: 2 } }, "geometry_msgs/msg/Pose");
  assert.deepEqual(await line(channel), { topic: "/pose", type: "geometry_msgs/msg/Pose", at: "2030-01-01T00:00:00.000Z", message: 1.5 });
  channel.close();
  await eventually(() => ros.listened, []);
});

test("an unknown field ends the topic stream with a list of known fields", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/pose", field: "z" });
  await eventually(() => ros.listened, ["/pose"]);
  ros.publish("/pose", { x: 1, y: 2 }, "a/msg/B");
  assert.deepEqual(await channel.ended, { code: 4410, reason: "a/msg/B has no field z (known fields: x, y)" });
  await eventually(() => ros.listened, []);
});

test("a slow viewer gets the newest topic message with the number of skipped messages", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/image", full: true });
  await eventually(() => ros.listened, ["/image"]);
  const data = new Uint8Array(100_000);
  for (let number = 0; number < 200; number += 1) ros.publish("/image", { number, data });
  const numberOf = ({ message }: Line): number => (message as { number: number }).number;
  const [first, second] = [await line(channel), await line(channel)];
  assert.deepEqual([numberOf(first), first.skipped, numberOf(second), second.skipped], [0, undefined, 199, 198]);
  ros.publish("/image", { number: 200, data });
  const third = await line(channel);
  assert.deepEqual([numberOf(third), third.skipped], [200, undefined]);
});

test("topic messages dropped by the requested rate do not count as skipped", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/fast", rate: 0.001 });
  await eventually(() => ros.listened, ["/fast"]);
  for (let number = 0; number < 50; number += 1) ros.publish("/fast", { number });
  assert.deepEqual(await line(channel), {
    topic: "/fast",
    type: "test_msgs/msg/Any",
    at: "2030-01-01T00:00:00.000Z",
    message: { number: 0 },
  });
  channel.close();
  await channel.ended;
});

test("summarizes a topic message that is too large in full", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/cloud", full: true });
  await eventually(() => ros.listened, ["/cloud"]);
  ros.publish("/cloud", { data: new Uint8Array(6_000_000) });
  const { message, note } = await line(channel);
  assert.deepEqual(message, { data: { length: 6_000_000, first: [0, 0, 0, 0, 0, 0, 0, 0] } });
  assert.match(note ?? "", /summarized/);
});

test("limits a message summary even with huge strings or field names", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/strange", full: true });
  await eventually(() => ros.listened, ["/strange"]);
  const texts = Object.fromEntries(Array.from({ length: 8_000 }, (_, i) => [`t${i}`, "\u0000".repeat(1_000)]));
  ros.publish("/strange", texts);
  const first = await line(channel);
  assert.match(first.note ?? "", /summarized|too large/);
  ros.publish("/strange", Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`${i}${"n".repeat(1_000_000)}`, i])));
  const { message, note } = await line(channel);
  assert.deepEqual([message, note], [null, "too large"]);
  channel.close();
});

test("a message that cannot be shown ends the topic stream with a reason", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  const channel = await open({ op: "echo", topic: "/strange" });
  await eventually(() => ros.listened, ["/strange"]);
  ros.publish("/strange", 1, "t".repeat(5 * 1024 * 1024));
  assert.deepEqual(await channel.ended, { code: 4410, reason: "a message of this topic could not be shown" });
});

test("sends the topic list once, or after each change if the viewer follows it", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  ros.published = [
    { name: "/b", type: "std_msgs/msg/String" },
    { name: "/a", type: "std_msgs/msg/Int32" },
  ];
  const topics = ros.published.toReversed().map((topic) => ({ ...topic, adapter: "dds" }));
  const dds = { type: "topics", adapter: "dds", distro: "humble", adapters: [{ name: "dds", state: "connected", distro: "humble" }] };
  const once = await open({ op: "list" });
  assert.deepEqual(await listed(once), { ...dds, topics });
  assert.equal((await once.ended).code, 1000);
  const following = await open({ op: "list", follow: true });
  assert.deepEqual(await listed(following), { ...dds, topics });
  ros.published = [];
  assert.deepEqual(await listed(following), { ...dds, topics: [] });
  ros.leave("gone");
  const adapters = [{ name: "dds", state: "lost", reason: "gone" }];
  assert.deepEqual(await listed(following), { type: "topics", topics: [], adapter: null, distro: null, adapters });
  following.close();
});

test("a topic stream with an unpublished message type ends with the reason", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  ros.published = [{ name: "/tf", type: "tf2_msgs/msg/TFMessage" }];
  const channel = await open({ op: "echo", topic: "/tf", type: "tf2_msgs/msg/TFMessage" });
  await eventually(() => ros.listened, ["/tf"]);
  ros.publish("/tf", 1, "tf2_msgs/msg/TFMessage");
  assert.equal((await line(channel)).message, 1);
  const other = await open({ op: "echo", topic: "/tf", type: "tf2_msgs/TFMessage" });
  assert.match((await other.ended).reason, /^no topic \/tf of type tf2_msgs\/TFMessage is published/);
  channel.close();
});

test("refuses a topic stream without ROS, with invalid parameters, or if topics are disabled", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  ros.there = false;
  const none = await open({ op: "echo", topic: "/a" });
  assert.deepEqual(await none.ended, { code: 4410, reason: "ROS does not respond on this robot" });
  await assert.rejects(open({ op: "echo" }), { code: 4410, message: "topic must be the name of a topic, such as /chatter" });
  const off = startRobot(t, { ...ROBOT_CONFIG_DEFAULT.streams, topics: false });
  await assert.rejects(off.open({ op: "echo", topic: "/a" }), { code: 4410, message: "disabled on the robot" });
  assert.equal(off.ros.searches, 0);
});

test("a topic stream ends if its topic is not published, but not if the topic is silent", LIMIT, async (t) => {
  const { ros, open } = startRobot(t);
  ros.published = [{ name: "/silent", type: "test_msgs/msg/Any" }];
  const [silent, unknown] = [await open({ op: "echo", topic: "/silent" }), await open({ op: "echo", topic: "/unknown" })];
  const { code, reason } = await unknown.ended;
  assert.equal(code, 4410);
  assert.match(reason, /^no topic \/unknown is published on this robot/);
  ros.publish("/silent", { data: 1 });
  assert.deepEqual((await line(silent)).message, { data: 1 });
  silent.close();
});
