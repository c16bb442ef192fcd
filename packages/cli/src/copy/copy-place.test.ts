import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../failure.ts";
import { nameFor, parseCopy, parseCopyPlace } from "./copy-place.ts";

test("a colon before any slash names a robot", () => {
  const places: [string, string | undefined, string][] = [
    ["rob_1:/var/log", "rob_1", "/var/log"],
    ["rob_1:maps/a:b", "rob_1", "maps/a:b"],
    ["rob_1:", "rob_1", "."],
    ["./a:b", undefined, "./a:b"],
    ["/tmp/a:b", undefined, "/tmp/a:b"],
    [":x", undefined, ":x"],
    ["map.pgm", undefined, "map.pgm"],
  ];
  for (const [text, robot_id, path] of places) assert.deepEqual(parseCopyPlace(text), { robot_id, path }, text);
});

test("requires one path on a robot and one on this machine", () => {
  assert.equal(parseCopy("a", "rob_1:b").robot_id, "rob_1");
  assert.equal(parseCopy("rob_1:b", ".").robot_id, "rob_1");
  for (const [from, to] of [
    ["a", "b"],
    ["rob_1:a", "rob_2:b"],
    ["", "rob_1:b"],
  ] as const)
    assert.throws(
      () => parseCopy(from, to),
      (error) => error instanceof Failure && error.exit_code === 2,
      `${from} ${to}`,
    );
});

test("a copy into a directory keeps its name, however the path is written", () => {
  assert.equal(nameFor("logs/nav.log", "/home/pi/logs/nav.log"), "nav.log");
  assert.equal(nameFor("logs/", "/home/pi/.ssh"), "logs");
  assert.equal(nameFor(".", "/home/pi"), "pi");
  assert.equal(nameFor("../..", "/home"), "home");
  assert.equal(nameFor("a/..", "/home/pi"), "pi");
});
