import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { HealthBody } from "@roamfleet/protocol/link/messages";
import { pino } from "pino";
import { Value } from "typebox/value";
import type { FindRosAdapter, RosAdapterName } from "./adapter.ts";
import { RosBridge } from "./bridge.ts";
import { rosSettings } from "./settings.ts";
import { ScriptedRos } from "./testing/scripted-adapter.ts";

const LIMIT = { timeout: 120_000 };
const SCAN_1 = { name: "/scan", type: "sensor_msgs/LaserScan" };
const SCAN_2 = { name: "/scan", type: "sensor_msgs/msg/LaserScan" };
const ARM = { name: "/arm", type: "std_msgs/String" };

const turns = async (): Promise<void> => {
  for (let i = 0; i < 50; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

interface Robot {
  bridge: RosBridge;
  /** Advances the simulated clock, one second at a time. */
  wait: (seconds: number) => Promise<void>;
}

async function startRobot(
  t: TestContext,
  all: readonly ScriptedRos[],
  more: Partial<Record<RosAdapterName, FindRosAdapter>> = {},
): Promise<Robot> {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const finders = { ...more, ...Object.fromEntries(all.map((ros) => [ros.name, ros.find])) };
  const settings = rosSettings({ adapters: ["dds", "foxglove", "ros2", "rosbridge", "ros1"] }, {});
  const bridge = new RosBridge({ settings, clock, log: pino({ level: "silent" }), finders });
  t.after(() => bridge.stop());
  bridge.start();
  await turns();
  const wait = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      await clock.advance({ seconds: 1 });
      await turns();
    }
  };
  return { bridge, wait };
}

const states = ({ adapters }: RosBridge): string[] => adapters.map(({ name, state }) => `${name} ${state}`);

test("lists each ROS topic once, with the type that the first adapter reports", LIMIT, async (t) => {
  const [dds, ros1] = [new ScriptedRos("dds"), new ScriptedRos("ros1")];
  dds.published = [SCAN_2, { name: "/map", type: "nav_msgs/msg/OccupancyGrid" }];
  ros1.published = [SCAN_1, ARM];
  const { bridge } = await startRobot(t, [ros1, dds]);
  assert.deepEqual(await bridge.topics(), [
    { ...ARM, adapter: "ros1" },
    { name: "/map", type: "nav_msgs/msg/OccupancyGrid", adapter: "dds" },
    { ...SCAN_2, adapter: "dds", others: [{ type: SCAN_1.type, adapter: "ros1" }] },
  ]);
});

test("subscribes to each ROS topic only at the first adapter that lists it", LIMIT, async (t) => {
  const [dds, ros1] = [new ScriptedRos("dds"), new ScriptedRos("ros1")];
  dds.published = [SCAN_2];
  ros1.published = [SCAN_1, ARM];
  const { bridge } = await startRobot(t, [dds, ros1]);
  const got: string[] = [];
  await bridge.subscribe("/scan", {}, ({ message }) => got.push(`scan ${String(message)}`));
  await bridge.subscribe("/arm", {}, ({ message }) => got.push(`arm ${String(message)}`));
  await turns();
  assert.deepEqual([dds.subscribed, ros1.subscribed], [["/scan"], ["/arm"]]);
  dds.publish("/scan", 1);
  ros1.publish("/arm", 2);
  assert.deepEqual(got, ["scan 1", "arm 2"]);
  await bridge.subscribe("/scan", { type: SCAN_1.type }, ({ message }) => got.push(`scan of ROS 1 ${String(message)}`));
  await turns();
  ros1.publish("/scan", 3);
  assert.equal(got.at(-1), "scan of ROS 1 3");
});

test("moves subscriptions of a lost ROS adapter to another adapter until the lost one returns", LIMIT, async (t) => {
  const [dds, ros1] = [new ScriptedRos("dds"), new ScriptedRos("ros1")];
  dds.published = [SCAN_2];
  ros1.published = [SCAN_1, ARM];
  const { bridge, wait } = await startRobot(t, [dds, ros1]);
  const [scan, arm]: [unknown[], unknown[]] = [[], []];
  await bridge.subscribe("/scan", {}, ({ message }) => scan.push(message));
  await bridge.subscribe("/arm", {}, ({ message }) => arm.push(message));
  await turns();
  dds.leave("no publishers left in the DDS domain");
  await turns();
  ros1.publish("/arm", 1);
  ros1.publish("/scan", 2);
  assert.deepEqual(states(bridge), ["dds lost", "ros1 connected"]);
  dds.there = true;
  await wait(8);
  dds.publish("/scan", 3);
  ros1.publish("/arm", 4);
  assert.deepEqual(
    [scan, arm],
    [
      [2, 3],
      [1, 4],
    ],
  );
  assert.deepEqual(
    ros1.subscribed.filter((topic) => topic === "/arm"),
    ["/arm"],
    "it was never interrupted",
  );
  assert.deepEqual(ros1.listened, ["/arm"]);
});

test("moves a subscription when its topic appears at another connected ROS adapter", LIMIT, async (t) => {
  const [dds, ros1] = [new ScriptedRos("dds"), new ScriptedRos("ros1")];
  const { bridge, wait } = await startRobot(t, [dds, ros1]);
  await bridge.subscribe("/arm", {}, () => {});
  await turns();
  assert.deepEqual(dds.listened, ["/arm"], "a topic that none has waits at the first adapter");
  ros1.published = [ARM];
  await wait(8);
  assert.deepEqual([dds.listened, ros1.listened], [[], ["/arm"]]);
});

test("a ROS adapter that hangs or fails does not delay other adapters", LIMIT, async (t) => {
  const found = new ScriptedRos("dds");
  const late = Promise.withResolvers<undefined>();
  // This search ignores its abort signal.
  const hangs: FindRosAdapter = async (options) => late.promise.then(() => found.find(options));
  const [rosbridge, ros1] = [new ScriptedRos("rosbridge"), new ScriptedRos("ros1")];
  rosbridge.hangs = true;
  ros1.published = [ARM];
  const { bridge, wait } = await startRobot(t, [rosbridge, ros1], { dds: hangs, foxglove: () => Promise.reject(new Error("broken")) });
  assert.deepEqual(states(bridge), ["dds searching", "foxglove failed", "rosbridge connected", "ros1 connected"]);
  const got: unknown[] = [];
  await bridge.subscribe("/arm", {}, ({ message }) => got.push(message));
  await turns();
  ros1.publish("/arm", 1);
  assert.deepEqual(got, [1]);
  const listing = bridge.topics();
  await wait(2);
  assert.deepEqual(await listing, [{ ...ARM, adapter: "ros1" }]);
  await wait(30);
  assert.deepEqual(bridge.adapters[0], { name: "dds", state: "failed", reason: "the search did not end within 30 s" });
  late.resolve(undefined);
  await turns();
  assert.equal(found.closed, 1);
});

test("retries a subscription that a ROS adapter refused", LIMIT, async (t) => {
  const [dds, ros1] = [new ScriptedRos("dds"), new ScriptedRos("ros1")];
  ros1.published = [ARM];
  ros1.refuses = true;
  const { bridge, wait } = await startRobot(t, [dds, ros1]);
  await bridge.subscribe("/arm", {}, () => {});
  await wait(6);
  assert.deepEqual(ros1.listened, []);
  ros1.refuses = false;
  await wait(6);
  assert.deepEqual(ros1.listened, ["/arm"]);
});

test("uses the ros2 command only while no adapter of higher priority is connected", LIMIT, async (t) => {
  const [dds, ros2, ros1] = [new ScriptedRos("dds"), new ScriptedRos("ros2"), new ScriptedRos("ros1")];
  const { bridge, wait } = await startRobot(t, [dds, ros2, ros1]);
  assert.deepEqual([states(bridge), ros2.searches], [["dds connected", "ros2 standby", "ros1 connected"], 0]);
  dds.leave("gone");
  await wait(8);
  assert.deepEqual(states(bridge), ["dds lost", "ros2 connected", "ros1 connected"]);
  dds.there = true;
  await wait(120);
  assert.deepEqual(states(bridge), ["dds connected", "ros2 standby", "ros1 connected"]);
});

test("a search waits for the ros2 command if no other adapter is found", LIMIT, async (t) => {
  const [dds, ros2] = [new ScriptedRos("dds"), new ScriptedRos("ros2")];
  dds.there = false;
  ros2.there = false;
  const { bridge } = await startRobot(t, [dds, ros2]);
  ros2.there = true;
  assert.equal(await bridge.find(), true);
});

test("health lists every ROS adapter, and the first also in the field for older servers", LIMIT, async (t) => {
  const [foxglove, rosbridge, ros1] = [new ScriptedRos("foxglove"), new ScriptedRos("rosbridge"), new ScriptedRos("ros1")];
  rosbridge.there = false;
  ros1.distro = "noetic";
  ros1.published = [SCAN_1, ARM];
  ros1.node_names = ["/talker"];
  foxglove.published = [SCAN_2];
  const { bridge } = await startRobot(t, [foxglove, rosbridge, ros1]);
  const health = await bridge.health();
  assert.deepEqual(health, {
    ros: { distro: "humble", adapter: "foxglove", nodes: ["/talker"], topics: ["/arm", "/scan"] },
    ros_adapters: [
      { name: "foxglove", state: "connected", distro: "humble", nodes: 0, topics: 1 },
      { name: "rosbridge", state: "not_found" },
      { name: "ros1", state: "connected", distro: "noetic", nodes: 1, topics: 2 },
    ],
  });
  foxglove.leave(`closed: ${"x".repeat(2_000)}`);
  ros1.leave("roscore ended");
  await turns();
  const { ros, ros_adapters } = await bridge.health();
  assert.deepEqual([ros, ros_adapters?.map(({ state }) => state)], [null, ["lost", "not_found", "lost"]]);
  assert.deepEqual(Value.Errors(HealthBody.properties.ros_adapters, ros_adapters), []);
});
