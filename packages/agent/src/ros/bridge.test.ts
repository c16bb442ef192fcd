import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { pino } from "pino";
import type { FindRosAdapter, RosAdapterName, RosMessage } from "./adapter.ts";
import { RosBridge } from "./bridge.ts";
import { rosSettings } from "./settings.ts";
import { ScriptedRos } from "./testing/scripted-adapter.ts";

const LIMIT = { timeout: 120_000 };
const turns = async (): Promise<void> => {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

const connected = (bridge: RosBridge): string[] => bridge.adapters.filter(({ state }) => state === "connected").map(({ name }) => name);

function startBridge(
  t: TestContext,
  finders: Partial<Record<RosAdapterName, FindRosAdapter>>,
  adapters: RosAdapterName[] = ["dds", "foxglove"],
) {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const settings = rosSettings({ adapters }, {});
  const bridge = new RosBridge({ settings, clock, log: pino({ level: "silent" }), finders });
  t.after(() => bridge.stop());
  return { bridge, clock };
}

test("searches for a ROS adapter again after it is lost", LIMIT, async (t) => {
  const dds = new ScriptedRos("dds");
  const { bridge, clock } = startBridge(t, { dds: dds.find });
  bridge.start();
  await turns();
  assert.deepEqual([connected(bridge), dds.searches], [["dds"], 1]);
  dds.leave("the server ended");
  await turns();
  assert.deepEqual(bridge.adapters, [{ name: "dds", state: "lost", reason: "the server ended" }]);
  assert.equal((await bridge.health()).ros, null);
  dds.there = true;
  await clock.advance({ seconds: 2 });
  await turns();
  assert.deepEqual([connected(bridge), dds.searches], [["dds"], 2]);
});

test("repeats the search for ROS adapters with backoff, and immediately for a request", LIMIT, async (t) => {
  const dds = new ScriptedRos();
  dds.there = false;
  const { bridge, clock } = startBridge(t, { dds: dds.find });
  bridge.start();
  for (let minute = 0; minute < 60; minute += 1) {
    await clock.advance({ minutes: 1 });
    await turns();
  }
  assert.ok(dds.searches > 60 && dds.searches < 400, `${dds.searches} searches in an hour`);
  dds.there = true;
  assert.equal(await bridge.find(), true);
  assert.deepEqual(connected(bridge), ["dds"]);
});

test("all listeners of a ROS topic share one subscription, which ends with the last listener", LIMIT, async (t) => {
  const dds = new ScriptedRos();
  const { bridge, clock } = startBridge(t, { dds: dds.find });
  const got: string[] = [];
  const listen = (name: string, rate?: number) =>
    bridge.subscribe("/a", { rate }, ({ message }: RosMessage) => got.push(`${name}${String(message)}`));
  const [one, two] = [await listen("one"), await listen("slow", 1)];
  await turns();
  assert.deepEqual(dds.subscribed, ["/a"]);
  for (let i = 0; i < 30; i += 1) {
    dds.publish("/a", i);
    await clock.advance({ milliseconds: 100 });
  }
  assert.equal(got.filter((text) => text.startsWith("one")).length, 30);
  assert.deepEqual(
    got.filter((text) => text.startsWith("slow")),
    ["slow0", "slow10", "slow20"],
  );
  const late = await listen("late");
  await turns();
  assert.equal(got.at(-1), "late29", "a late listener receives the latest message");
  one();
  two();
  assert.deepEqual(dds.listened, ["/a"]);
  late();
  late();
  assert.deepEqual(dds.listened, []);
});

test("an exception in one topic listener does not affect other listeners or later messages", LIMIT, async (t) => {
  const dds = new ScriptedRos();
  const { bridge } = startBridge(t, { dds: dds.find });
  const [fine, picky]: [unknown[], number[]] = [[], []];
  await bridge.subscribe("/a", {}, ({ message }) => picky.push(Number(message)));
  await bridge.subscribe("/a", {}, ({ message }) => fine.push(message));
  await turns();
  const strange = { valueOf: 1, toString: 1 };
  for (const message of [1, strange, 2]) dds.publish("/a", message);
  assert.deepEqual(
    [picky, fine],
    [
      [1, 2],
      [1, strange, 2],
    ],
  );
});

test("ROS subscriptions start or resume when an adapter is found", LIMIT, async (t) => {
  const dds = new ScriptedRos();
  dds.there = false;
  const { bridge, clock } = startBridge(t, { dds: dds.find });
  const got: unknown[] = [];
  await bridge.subscribe("/a", {}, ({ message }) => got.push(message));
  await turns();
  dds.there = true;
  await clock.advance({ seconds: 2 });
  await turns();
  dds.publish("/a", 1);
  dds.leave("gone");
  await turns();
  dds.there = true;
  await clock.advance({ seconds: 2 });
  await turns();
  dds.publish("/a", 2);
  assert.deepEqual(
    [got, dds.subscribed],
    [
      [1, 2],
      ["/a", "/a"],
    ],
  );
});

test("limits the ROS nodes and topics in health to what the server accepts", LIMIT, async (t) => {
  const dds = new ScriptedRos();
  const { bridge } = startBridge(t, { dds: dds.find });
  assert.equal((await bridge.health()).ros, null);
  dds.node_names = ["/talker", "x".repeat(300)];
  dds.published = Array.from({ length: 6_000 }, (_, i) => ({ name: `/t${i}`, type: "a/msg/B" }));
  await bridge.find();
  const { ros: health } = await bridge.health();
  assert.deepEqual([health?.distro, health?.adapter, health?.nodes, health?.topics.length], ["humble", "dds", ["/talker"], 5_000]);
});

test("finds installed ROS 2 distributions, but not ROS 1, without environment variables", async (t) => {
  const root = await mkdtemp(join(tmpdir(), "roamfleet-root-"));
  t.after(() => rm(root, { recursive: true }));
  for (const name of ["humble", "jazzy"]) await mkdir(join(root, "opt/ros", name, "share/ament_index"), { recursive: true });
  await mkdir(join(root, "opt/ros/noetic/share"), { recursive: true });
  const { prefixes } = rosSettings({ adapters: [] }, {}, root);
  assert.deepEqual(prefixes, [join(root, "opt/ros/jazzy"), join(root, "opt/ros/humble")]);
  assert.deepEqual(rosSettings({ adapters: [] }, {}, join(root, "none")).prefixes, []);
});

test("ROS environment variables apply to settings that the config file omits", () => {
  const environment = {
    ROS_DOMAIN_ID: "42",
    ROS_DISTRO: "humble",
    AMENT_PREFIX_PATH: "/ws/install:/opt/ros/humble:",
    ROS_MASTER_URI: "http://m:1",
    ROS_LOCALHOST_ONLY: "1",
  };
  const said = rosSettings({ adapters: ["dds"] }, environment);
  assert.deepEqual(
    [said.domain_id, said.distro, said.prefixes, said.ros1_master_uri, said.localhost_only],
    [42, "humble", ["/ws/install", "/opt/ros/humble"], "http://m:1", true],
  );
  assert.deepEqual(rosSettings({ adapters: [], prefixes: ["/own"] }, environment).prefixes, ["/own", "/ws/install", "/opt/ros/humble"]);
  assert.equal(rosSettings({ adapters: [], domain_id: 7 }, environment).domain_id, 7);
  for (const wrong of ["", "x", "-1", "999"]) assert.equal(rosSettings({ adapters: [] }, { ROS_DOMAIN_ID: wrong }).domain_id, undefined);
});
