import assert from "node:assert/strict";
import { test } from "node:test";
import type { WebSocket } from "ws";
import { RfHome, type RfResult } from "./testing/run-rf.ts";
import { ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };

/** Runs `rf robots topics rob_1 …` against a service that handles the stream with `accept`. */
async function topics(words: string[], accept: (socket: WebSocket) => void): Promise<RfResult & { lines: string[] }> {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(() => undefined, accept);
  const result = await home.run(["robots", "topics", "rob_1", ...words], { env: service.env });
  return { ...result, lines: service.lines };
}

const message = (message: unknown, rest: object = {}): string =>
  JSON.stringify({ ...rest, topic: "/chatter", type: "std_msgs/String", at: "2030-01-01T00:00:00.000Z", message });

const LIST = {
  topics: [
    { name: "/chatter", type: "std_msgs/msg/String" },
    { name: "/scan", type: "sensor_msgs/msg/LaserScan" },
  ],
  adapter: "foxglove",
  distro: "jazzy",
};

test("rf robots topics list prints names and types, and the adapter on stderr", TIMEOUT, async () => {
  const answer = (socket: WebSocket): void => socket.send(JSON.stringify(LIST));
  const people = await topics(["list"], answer);
  assert.deepEqual(people.stdout.split("\n"), [
    "TOPIC     TYPE",
    "/chatter  std_msgs/msg/String",
    "/scan     sensor_msgs/msg/LaserScan",
    "",
  ]);
  assert.equal(people.stderr, "2 topics, via foxglove (jazzy)\n");
  assert.deepEqual(people.lines, ["UPGRADE /api/robots/rob_1/ros/topics/echo"]);
  const program = await topics(["list", "--json"], answer);
  assert.deepEqual([program.code, JSON.parse(program.stdout)], [0, LIST]);
});

test("rf robots topics list prints each topic's adapter if there are several adapters", TIMEOUT, async () => {
  const list = {
    topics: [
      { name: "/chatter", type: "std_msgs/String", adapter: "ros1" },
      { name: "/tf", type: "tf2_msgs/msg/TFMessage", adapter: "dds", others: [{ type: "tf2_msgs/TFMessage", adapter: "ros1" }] },
    ],
    adapter: "dds",
    distro: "jazzy",
    adapters: [
      { name: "dds", state: "connected", distro: "jazzy" },
      { name: "foxglove", state: "lost", reason: "closed with\u001b[2J 1006" },
      { name: "rosbridge", state: "not_found" },
      { name: "ros1", state: "connected", distro: null },
    ],
  };
  const { stdout, stderr } = await topics(["list"], (socket) => socket.send(JSON.stringify(list)));
  assert.deepEqual(stdout.split("\n"), [
    "TOPIC     TYPE                    ADAPTER",
    "/chatter  std_msgs/String         ros1",
    "/tf       tf2_msgs/msg/TFMessage  dds",
    "/tf       tf2_msgs/TFMessage      ros1",
    "",
  ]);
  assert.deepEqual(stderr.split("\n"), [
    "2 topics, via dds (jazzy), ros1",
    String.raw`foxglove lost: closed with\x1b[2J 1006`,
    "/tf has several types: echo and hz read tf2_msgs/msg/TFMessage unless --type names another type",
    "",
  ]);
});

test("rf robots topics echo and hz request the type given by --type", TIMEOUT, async () => {
  for (const action of ["echo", "hz"]) {
    const { lines } = await topics([action, "/tf", "--type", "tf2_msgs/TFMessage"], (socket) => socket.close(4410, "none"));
    assert.deepEqual(lines, ["UPGRADE /api/robots/rob_1/ros/topics/echo?topic=%2Ftf&type=tf2_msgs%2FTFMessage"]);
  }
});

test("rf robots topics echo prints messages like ROS and stops after --count messages", TIMEOUT, async () => {
  const { code, stdout, stderr, lines } = await topics(["echo", "/chatter", "--count", "3"], (socket) => {
    socket.send(message({ data: "hi\u001b[2J", header: { stamp: { sec: 1, nanosec: 2 } }, ranges: [0.5, "NaN"] }));
    socket.send(message({ data: "next" }, { skipped: 4 }));
    socket.send(message({ data: "last" }, { note: "more than 1 bytes: summarized" }));
  });
  assert.deepEqual(stdout.split("\n"), [
    String.raw`data: "hi\e[2J"`,
    "header:",
    "  stamp:",
    "    sec: 1",
    "    nanosec: 2",
    "ranges: [0.5, NaN]",
    "---",
    "data: next",
    "---",
    "data: last",
    "---",
    "",
  ]);
  assert.equal(stderr, "skipped 4\nmore than 1 bytes: summarized\n");
  assert.equal(code, 0);
  assert.deepEqual(lines, ["UPGRADE /api/robots/rob_1/ros/topics/echo?topic=%2Fchatter"]);
});

test("rf robots topics echo --json prints messages of the requested field and rate unchanged", TIMEOUT, async () => {
  const words = ["echo", "/odom", "--field", "pose.x", "--rate", "2.5", "--full", "--count", "1", "--json"];
  const sent = message(1.5, { skipped: 2 });
  const { stdout, stderr, lines } = await topics(words, (socket) => socket.send(sent));
  assert.deepEqual([JSON.parse(stdout), stderr], [JSON.parse(sent), "skipped 2\n"]);
  assert.deepEqual(lines, ["UPGRADE /api/robots/rob_1/ros/topics/echo?topic=%2Fodom&field=pose.x&rate=2.5&full=true"]);
});

test("rf robots topics hz counts sent and skipped messages and stops after --count rates", TIMEOUT, async () => {
  const { code, stdout, stderr } = await topics(["hz", "/scan", "--count", "1"], (socket) => {
    socket.send(JSON.stringify({ at: "2030-01-01T00:00:00.000Z", message: null }));
    socket.send(JSON.stringify({ at: "2030-01-01T00:00:00.100Z", message: null }));
    socket.send(JSON.stringify({ at: "2030-01-01T00:00:00.400Z", message: null, skipped: 2 }));
  });
  assert.equal(stdout, "average rate: 10.000\n\tmin: 0.100s max: 0.100s std dev: 0.00000s window: 5\n");
  assert.equal(stderr, "subscribed to [/scan]\n");
  assert.equal(code, 0);
});

test("rf robots topics prints why the robot ended the stream or that the robot is offline", TIMEOUT, async () => {
  const none = await topics(["list"], (socket) => socket.close(4410, "ROS does not respond on this robot"));
  assert.deepEqual([none.code, none.stdout], [1, ""]);
  assert.match(none.stderr, /the robot ended the stream: ROS does not respond on this robot/);
  const offline = await topics(["echo", "/chatter"], (socket) => socket.close(4409, "agent offline"));
  assert.deepEqual([offline.code, offline.stderr.split("\n")[0]], [7, "agent offline"]);
});

for (const [words, why] of [
  [["echo"], /a topic is required/],
  [["list", "/chatter"], /list accepts no topic/],
  [["hz", "/scan", "--rate", "5"], /hz counts all messages/],
  [["show"], /list, echo, hz/],
  [["echo", "/scan", "--rate", "0"], /above 0/],
] as const) {
  test(`rf robots topics ${words.join(" ")} is a usage error and opens no stream`, TIMEOUT, async () => {
    const { code, stderr, lines } = await topics([...words], () => {});
    assert.equal(code, 2);
    assert.match(stderr, why);
    assert.deepEqual(lines, []);
  });
}
