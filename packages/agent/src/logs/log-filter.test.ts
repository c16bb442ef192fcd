import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { LOG_LEVELS, type LogLevel } from "@roamfleet/protocol/link";
import type { LogFilterRule } from "../config-file/robot-config.ts";
import type { LogRecord } from "../contract.ts";
import { LogFilter } from "./log-filter.ts";

function startRig(rules: LogFilterRule[]) {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const records: LogRecord[] = [];
  const filter = new LogFilter({ rules, sink: { write: (record) => void records.push(record) }, clock });
  const write = (source: string, level: LogLevel = "info", at?: Date): void =>
    filter.write({ source, level, message: "m", ...(at === undefined ? {} : { at }) });
  return { clock, records, filter, write };
}

test("a log filter keeps records at or above its level, and the first rule that matches a source applies", () => {
  const { records, write } = startRig([
    { source: "nav", level: "debug" },
    { source: "nav*", level: "error" },
    { source: "*", level: "warn" },
  ]);
  for (const source of ["nav", "nav-planner", "camera"]) for (const level of LOG_LEVELS) write(source, level);
  const levels = (source: string): string[] => records.filter((one) => one.source === source).map(({ level }) => level);
  assert.deepEqual(levels("nav"), ["debug", "info", "warn", "error", "fatal"]);
  assert.deepEqual(levels("nav-planner"), ["error", "fatal"]);
  assert.deepEqual(levels("camera"), ["warn", "error", "fatal"]);
});

test("the pattern of a log filter matches whole names, and * stands for any characters", () => {
  const matches = (pattern: string, source: string): boolean => {
    const { records, write } = startRig([{ source: pattern, level: "fatal" }]);
    write(source);
    return records.length === 0;
  };
  for (const [pattern, source] of [
    ["nav", "nav"],
    ["*", "/any/node"],
    ["/camera/*", "/camera/left/driver"],
    ["*.log", "/var/log/a.log"],
    ["/var/*/nav*.log", "/var/log/x/nav-1.log"],
    ["a*a", "aa"],
    ["**", ""],
  ] as const)
    assert.ok(matches(pattern, source), `${pattern} ${source}`);
  for (const [pattern, source] of [
    ["nav", "nav2"],
    ["nav", "Nav"],
    ["/camera/*", "/camera"],
    ["*.log", "a.log.1"],
    ["a*a", "a"],
    ["a*b*b", "ab"],
    ["a.c", "abc"],
  ] as const)
    assert.ok(!matches(pattern, source), `${pattern} ${source}`);
});

test("a log filter limits the rate of each source, and the log contains the number of dropped records", async () => {
  const { clock, records, filter, write } = startRig([{ source: "lidar*", records_per_second: 5 }]);
  for (let i = 0; i < 300; i += 1) write("lidar");
  write("lidar-2");
  write("other");
  const count = (source: string): number => records.filter((one) => one.source === source).length;
  assert.deepEqual([count("lidar"), count("lidar-2"), count("other")], [50, 1, 1]);
  await clock.advance({ minutes: 1 });
  assert.deepEqual(records.at(-1), {
    level: "warn",
    source: "roamfleet",
    message: "250 records of lidar dropped: it writes more than 5 records or 524288 bytes a second",
    fields: { gap: { count: 250 }, source: "lidar" },
  });
  for (let i = 0; i < 60; i += 1) write("lidar");
  filter.close();
  assert.equal(records.at(-1)?.message.split(" ")[0], "10");
});

test("a log filter computes the rate from the records' own times, even if they are read late", () => {
  const { records, write } = startRig([{ source: "*", records_per_second: 1 }]);
  for (let i = 0; i < 600; i += 1) write("journal.service", "info", new Date(Date.parse("2029-12-31T00:00:00Z") + i * 1_000));
  assert.equal(records.length, 600);
});

test("a log filter does not drop the agent's reports about missing records", () => {
  const { records, write } = startRig([{ source: "*", level: "fatal" }]);
  write("roamfleet", "warn");
  assert.equal(records.length, 1);
});
