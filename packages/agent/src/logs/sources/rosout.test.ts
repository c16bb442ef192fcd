import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { pino } from "pino";
import type { LogRecord } from "../../contract.ts";
import { SOURCE_RECORDS_BURST } from "../log-rate-limiter.ts";
import { followRosout, type LogSourcesOptions, rosoutRecord, type RosoutTopic, startLogSources } from "./index.ts";

const at = new Date("2030-01-01T00:00:00Z");

test("log messages of ROS 2 nodes become records with the node as source", () => {
  const message = {
    stamp: { sec: 1_893_456_000, nanosec: 250_000_000 },
    level: 30,
    name: "nav2.planner",
    msg: "no path",
    file: "planner.cpp",
    function: "plan",
    line: 42,
  };
  assert.deepEqual(rosoutRecord(message, at), {
    level: "warn",
    source: "nav2.planner",
    message: "no path",
    fields: { file: "planner.cpp", function: "plan", line: 42 },
    at: new Date("2030-01-01T00:00:00.250Z"),
  });
  assert.deepEqual(
    [10, 20, 30, 40, 50, 0].map((level) => rosoutRecord({ ...message, level }, at)?.level),
    ["debug", "info", "warn", "error", "fatal", "info"],
  );
});

test("log messages of ROS 1 nodes become records, and simulated time is ignored", () => {
  const message = {
    header: { seq: 1, stamp: { sec: 1_893_456_001, nsec: 0 }, frame_id: "" },
    level: 8,
    name: "/talker",
    msg: "broken",
    file: "",
    line: 0,
    topics: [],
  };
  const record = rosoutRecord(message, at);
  assert.deepEqual(record, { level: "error", source: "/talker", message: "broken", fields: {}, at: new Date("2030-01-01T00:00:01Z") });
  assert.deepEqual(
    [1, 2, 4, 8, 16].map((level) => rosoutRecord({ ...message, level }, at)?.level),
    ["debug", "info", "warn", "error", "fatal"],
  );
  assert.deepEqual(rosoutRecord({ ...message, header: { stamp: { sec: 12, nsec: 0 } } }, at)?.at, at);
  assert.deepEqual(rosoutRecord({ ...message, header: { stamp: { sec: 1e300, nsec: 0 } } }, at)?.at, at, "no time at all");
  for (const none of [null, "text", {}, { msg: 1 }]) assert.equal(rosoutRecord(none, at), undefined);
});

test("follows /rosout of ROS 1 and of ROS 2 until it is stopped", async () => {
  const records: LogRecord[] = [];
  const listeners = new Map<string | undefined, (message: { at: Date; message: unknown }) => void>();
  const ros: RosoutTopic = {
    subscribe: async (topic, { type }, on) => {
      assert.equal(topic, "/rosout");
      listeners.set(type, on);
      return () => listeners.delete(type);
    },
  };
  const end = await followRosout(ros, { write: (record) => void records.push(record) });
  listeners.get("rcl_interfaces/msg/Log")?.({ at, message: { level: 20, name: "n", msg: "of ROS 2" } });
  listeners.get("rosgraph_msgs/Log")?.({ at, message: { level: 2, name: "n", msg: "of ROS 1" } });
  listeners.get("rosgraph_msgs/Log")?.({ at, message: new Uint8Array(3) });
  end();
  assert.deepEqual([...listeners], []);
  assert.deepEqual(
    records.map(({ message }) => message),
    ["of ROS 2", "of ROS 1"],
  );
});

const optionsOf = (more: Pick<LogSourcesOptions, "sink" | "spoolHasRoom" | "ros"> & { clock: SimulatedClock }): LogSourcesOptions => ({
  settings: { journald: false, files: [], rosout: true },
  state_directory: "/nowhere",
  log: pino({ enabled: false }),
  environment: {},
  spool: { last_seq: 0, is_written: true, isAcknowledged: () => true, sync: () => {} },
  boot_id: "boot",
  recent_directory: "/nowhere",
  ...more,
});

test("ROS nodes with changing names share one log rate limit", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const records: LogRecord[] = [];
  let publish: ((message: { at: Date; message: unknown }) => void) | undefined;
  let room = true;
  const ros: LogSourcesOptions["ros"] = { subscribe: async (_topic, _options, on) => ((publish = on), () => {}) };
  const sources = await startLogSources(
    optionsOf({ clock, sink: { write: (record) => void records.push(record) }, spoolHasRoom: () => room, ros }),
  );
  const log = (count: number, name: string): void => {
    for (let i = 0; i < count; i += 1) publish?.({ at, message: { level: 20, name: `${name}${i}`, msg: "m" } });
  };
  const dropped = (): number =>
    records.reduce((sum, { fields }) => sum + ((fields as { gap?: { count: number } } | undefined)?.gap?.count ?? 0), 0);
  log(SOURCE_RECORDS_BURST + 700, "n");
  await clock.advance({ seconds: 2 });
  assert.deepEqual([records.filter(({ message }) => message === "m").length, dropped()], [SOURCE_RECORDS_BURST, 700]);
  await clock.advance({ minutes: 1 });
  records.length = 0;
  room = false;
  log(5, "late");
  await sources.stop();
  assert.deepEqual([records.length, dropped()], [1, 5]);
});

test("log sources start even if the subscription to /rosout fails", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const ros = { subscribe: () => Promise.reject(new Error("no ROS here")) };
  const sources = await startLogSources(optionsOf({ clock, sink: { write: () => {} }, spoolHasRoom: () => true, ros }));
  await sources.stop();
});
