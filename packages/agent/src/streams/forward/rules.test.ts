import assert from "node:assert/strict";
import { test } from "node:test";
import { ROBOT_CONFIG_DEFAULT } from "../../config-file/robot-config.ts";
import { ForwardRules } from "./rules.ts";

const FORWARD_ALLOW_DEFAULT = ROBOT_CONFIG_DEFAULT.forward.allow;

const allows = (rules: readonly string[], host: string, address: string, port: number): boolean =>
  new ForwardRules(rules).allows(host, address, port);

test("the default tunnel rules allow only localhost", () => {
  const reached: [string, string, boolean][] = [
    ["127.0.0.1", "127.0.0.1", true],
    ["localhost", "127.0.0.1", true],
    ["localhost", "::1", true],
    ["::ffff:127.0.0.1", "::ffff:127.0.0.1", true],
    ["127.0.0.2", "127.0.0.2", false],
    ["10.0.0.1", "10.0.0.1", false],
    ["::ffff:10.0.0.1", "::ffff:10.0.0.1", false],
    // A name that begins like loopback but resolves to another address.
    ["127.0.0.1.evil.example", "10.0.0.1", false],
  ];
  for (const [host, address, allowed] of reached) assert.equal(allows(FORWARD_ALLOW_DEFAULT, host, address, 22), allowed, host);
});

test("tunnel rules match ports, port ranges, networks, host names and wildcards", () => {
  const rules = ["127.0.0.1:22", "192.168.1.0/24:8000-8100", "[fd00::/8]:*", "lidar.local:80", "*:443"];
  const cases: [string, string, number, boolean][] = [
    ["127.0.0.1", "127.0.0.1", 22, true],
    ["127.0.0.1", "127.0.0.1", 23, false],
    ["192.168.1.77", "192.168.1.77", 8100, true],
    ["192.168.1.77", "192.168.1.77", 8101, false],
    ["192.168.2.1", "192.168.2.1", 8000, false],
    ["fd12::1", "fd12::1", 9, true],
    ["LIDAR.local", "10.9.9.9", 80, true],
    ["10.9.9.9", "10.9.9.9", 80, false],
    ["anything.example", "203.0.113.1", 443, true],
  ];
  for (const [host, address, port, allowed] of cases) assert.equal(allows(rules, host, address, port), allowed, `${host}:${port}`);
});

test("the error for an invalid tunnel rule names the rule", () => {
  for (const rule of [
    "",
    "127.0.0.1",
    "127.0.0.1:0",
    "127.0.0.1:70000",
    "127.0.0.1:9-8",
    "::1:22",
    "[127.0.0.1]:22",
    "10.0.0.0/33:1",
    "a b:1",
    "[*]:1",
  ])
    assert.throws(() => new ForwardRules([rule]), new RegExp(`"${rule.replace(/[[\]*]/g, "\\$&")}" is not host:port`), rule);
});
