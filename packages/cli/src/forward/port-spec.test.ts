import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../failure.ts";
import { parsePortSpec } from "./port-spec.ts";

test("parses all forms of port mappings", () => {
  const specs: [string, [number, string, number]][] = [
    ["8080:80", [8080, "127.0.0.1", 80]],
    ["0:80", [0, "127.0.0.1", 80]],
    ["80", [80, "127.0.0.1", 80]],
    ["8080:10.0.0.7:80", [8080, "10.0.0.7", 80]],
    ["8080:lidar.local:80", [8080, "lidar.local", 80]],
    ["8080:[fd00::7]:80", [8080, "fd00::7", 80]],
  ];
  for (const [text, [local_port, host, port]] of specs) assert.deepEqual(parsePortSpec(text), { local_port, host, port }, text);
});

test("an invalid port mapping is a usage error", () => {
  for (const text of [
    "",
    "http",
    "8080:",
    ":80",
    "8080:http",
    "lidar:80",
    "1:2:3:4",
    "8080:0",
    "70000:80",
    "80:70000",
    "8080:fd00::7:80",
    "-1:80",
  ])
    assert.throws(
      () => parsePortSpec(text),
      (error) => error instanceof Failure && error.exit_code === 2,
      text,
    );
});
