import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { MessageReader, MessageWriter } from "@foxglove/rosmsg2-serialization";
import { findDefinitions, UnknownType } from "./definitions.ts";

async function prefix(t: TestContext, files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-ament-"));
  t.after(() => rm(directory, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    const path = join(directory, "share", name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  return directory;
}

/** Writes and reads a message with the found definitions. */
async function roundTrip(type: string, prefixes: string[], message: unknown): Promise<unknown> {
  const { definitions } = await findDefinitions(type, prefixes, null);
  return new MessageReader(definitions).readMessage(new MessageWriter(definitions).writeMessage(message));
}

test("finds a message type and its nested types across packages, preferring the first workspace", async (t) => {
  const overlay = await prefix(t, {
    "nav/msg/Goal.msg": "std_msgs/Header header\nPlace[<=4] places\nbuiltin_interfaces/Duration within\n",
  });
  const base = await prefix(t, {
    "nav/msg/Goal.msg": "int8 old\n",
    "nav/msg/Place.msg": "string<=20 name\nother/msg/Spot spot\n",
    "other/msg/Spot.msg": "float64 x\n",
    "std_msgs/msg/Header.msg": "builtin_interfaces/Time stamp\nstring frame_id\n",
  });
  const found = await findDefinitions("nav/msg/Goal", [overlay, base], null);
  assert.equal(found.source, join(overlay, "share/nav/msg/Goal.msg"));
  const goal = {
    header: { stamp: { sec: 1, nanosec: 2 }, frame_id: "map" },
    places: [{ name: "dock", spot: { x: 1.5 } }],
    within: { sec: 3, nanosec: 4 },
  };
  assert.deepEqual(await roundTrip("nav/msg/Goal", [overlay, base], goal), goal);
});

test("reads a message type from its .idl file when there is no .msg file", async (t) => {
  const directory = await prefix(t, {
    "nav/msg/Goal.idl":
      '#include "nav/msg/Place.idl"\nmodule nav { module msg {\n  typedef double double__3[3];\n  module Goal_Constants { const octet KIND = 3; };\n  struct Goal { nav::msg::Place place; double__3 where; sequence<nav::msg::Place> others; uint64 count; };\n}; };\n',
    "nav/msg/Place.idl": "module nav { module msg {\n  struct Place { string name; };\n}; };\n",
  });
  const found = await findDefinitions("nav/msg/Goal", [directory], null);
  assert.equal(found.source, join(directory, "share/nav/msg/Goal.idl"));
  const goal = { place: { name: "dock" }, where: Float64Array.of(1, 2, 3), others: [{ name: "a" }], count: 7n };
  assert.deepEqual(await roundTrip("nav/msg/Goal", [directory], goal), goal);
});

test("finds common message types of the robot's ROS release without a workspace", async () => {
  assert.match((await findDefinitions("sensor_msgs/msg/LaserScan", [], "humble")).source, /common types of ROS 2 humble/);
  assert.match((await findDefinitions("sensor_msgs/msg/LaserScan", [], "kilted")).source, /common types of ROS 2 jazzy/);
  const pose = { position: { x: 1, y: 2, z: 3 }, orientation: { x: 0, y: 0, z: 0, w: 1 } };
  assert.deepEqual(await roundTrip("geometry_msgs/msg/Pose", [], pose), pose);
});

test("an unknown message type fails with a reason, and its name cannot leave the workspace", async (t) => {
  const directory = await prefix(t, { "nav/msg/Goal.msg": "Place place\n", "nav/msg/Bad.msg": "this is no definition\n" });
  const why = async (type: string, prefixes: string[]): Promise<string> => {
    try {
      await findDefinitions(type, prefixes, null);
      return "found";
    } catch (error) {
      assert.ok(error instanceof UnknownType);
      return error.message;
    }
  };
  assert.equal(
    await why("a/msg/B", []),
    "no definition of a/msg/B: AMENT_PREFIX_PATH is not set for the agent, and it is not a common type",
  );
  assert.match(await why("nav/msg/Goal", [directory]), /cannot be read: nav\/Place, which nav\/msg\/Goal contains, is missing/);
  assert.match(await why("nav/msg/Bad", [directory]), /cannot be read/);
  for (const type of ["../../etc/msg/x", "a/msg/../b", "a/msg/__proto__/x", "constructor/msg/constructor"])
    assert.notEqual(await why(type, [directory]), "found");
});
