import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { pino } from "pino";
import { UndecodedMessage } from "../ros/adapter.ts";
import { RosBridge } from "../ros/bridge.ts";
import { rosSettings } from "../ros/settings.ts";
import { RosbridgeServer } from "../ros/testing/rosbridge-server.ts";
import { ScriptedRos } from "../ros/testing/scripted-adapter.ts";
import { collectSamples, droppedBy } from "../testing/collected-samples.ts";
import { fieldOf, RosValues } from "./ros-values.ts";

test("reads numeric fields by their path", () => {
  const message = { a: { b: [1, 2.5] }, big: 7n, is: true, text: "3", ranges: new Float32Array([0.5]), list: [{ x: 4 }], nan: NaN };
  for (const [path, value] of [
    ["a.b[1]", 2.5],
    ["big", 7],
    ["is", 1],
    ["ranges[0]", 0.5],
    ["list[0].x", 4],
    ["nan", NaN],
    ["text", undefined],
    ["a", undefined],
    ["a.c", undefined],
    ["a.b[2]", undefined],
    ["ranges[1]", undefined],
    ["constructor", undefined],
    ["list.length", 1],
  ] as const)
    assert.deepEqual(fieldOf(message, path), value, path);
});

test("takes the last value of a field for each sample, and none without a new message", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const adapter = new ScriptedRos("foxglove");
  const settings = rosSettings({ adapters: ["foxglove"] }, {}, "/nonexistent");
  const ros = new RosBridge({ settings, clock, log: pino({ level: "silent" }), finders: { foxglove: adapter.find } });
  const collected = collectSamples(clock);
  const source = collected.source("ros");
  const values = new RosValues({
    values: [
      { topic: "/battery", field: "voltage", name: "battery_voltage" },
      { topic: "/battery", field: "cells[0]", name: "battery_cell" },
      { topic: "/odom", field: "pose.x", name: "odom_x" },
    ],
    ros,
    source,
    clock,
  });
  values.start();
  await until("the subscriptions", () => adapter.listened.length === 2);
  const sample = async (): Promise<[string, number[]][]> => {
    await clock.advance({ seconds: 10 });
    values.collect();
    return collected.taken().map(({ name, values: numbers }) => [name, numbers]);
  };
  assert.deepEqual(await sample(), []);
  for (let i = 0; i < 1_000; i += 1) adapter.publish("/battery", { voltage: i, cells: [i / 2] });
  assert.deepEqual(await sample(), [
    ["battery_voltage", [999]],
    ["battery_cell", [499.5]],
  ]);
  assert.deepEqual(await sample(), []);
  adapter.publish("/battery", { voltage: NaN, cells: [] });
  adapter.publish("/odom", new UndecodedMessage(new Uint8Array(), "unknown type"));
  assert.deepEqual(await sample(), []);
  assert.deepEqual(droppedBy(source), { value: 1, invalid: 2 });
  assert.match(collected.lines.join(""), /no such numeric field/);
  await values.stop();
  assert.deepEqual(adapter.listened, []);
  await ros.stop();
});

test("takes values from a server with the protocol of rosbridge", { timeout: 120_000 }, async (t) => {
  const server = await RosbridgeServer.start(t, "/rosapi/");
  const typedefs = [{ type: "demo_msgs/Battery", fieldnames: ["voltage"], fieldtypes: ["float32"], fieldarraylen: [-1] }];
  server.topics.set("/battery", { type: "demo_msgs/msg/Battery", typedefs });
  const settings = { ...rosSettings({ adapters: ["rosbridge"] }, {}, "/nonexistent"), rosbridge_url: server.url };
  const ros = new RosBridge({ settings, clock: systemClock, log: pino({ level: "silent" }) });
  t.after(() => ros.stop());
  const collected = collectSamples();
  const source = collected.source("ros");
  const config = [{ topic: "/battery", field: "voltage", name: "battery_voltage" }];
  const values = new RosValues({ values: config, ros, source, clock: systemClock });
  values.start();
  await until("the subscription", () => server.subscriptions.size === 1);
  await until("a sample", () => {
    server.publish("/battery", { voltage: 24.5 });
    values.collect();
    return collected.taken().some(({ name, values: [value] }) => name === "battery_voltage" && value === 24.5);
  });
  await values.stop();
  await until("the end of the subscription", () => server.subscriptions.size === 0);
  assert.deepEqual(droppedBy(source), {});
});
