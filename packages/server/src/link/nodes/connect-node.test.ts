import assert from "node:assert/strict";
import type { NetworkInterfaceInfo } from "node:os";
import { test } from "node:test";
import { addressText, parseAddress, reachableHost } from "./connect-node.ts";

test("parses node addresses with a port, and refuses anything else", () => {
  for (const address of [
    { host: "10.0.0.7", port: 7601 },
    { host: "fd00::7", port: 1 },
    { host: "node-1.example.com", port: 65_535 },
  ])
    assert.deepEqual(parseAddress(addressText(address)), address);
  for (const text of ["", "host", "host:", ":7601", "host:70000", "fd00::7:7601", "a b:1", "http://host:1"])
    assert.equal(parseAddress(text), undefined, text);
});

test("advertises a listener on all addresses by the first non-loopback IPv4 address", () => {
  const one = (address: string, family: "IPv4" | "IPv6", internal: boolean) => ({ address, family, internal }) as NetworkInterfaceInfo;
  const interfaces = { lo: [one("127.0.0.1", "IPv4", true)], eth0: [one("fd00::1", "IPv6", false), one("10.1.2.3", "IPv4", false)] };
  assert.equal(reachableHost("0.0.0.0", interfaces), "10.1.2.3");
  assert.equal(reachableHost("::", interfaces), "10.1.2.3");
  assert.equal(reachableHost("10.9.9.9", interfaces), "10.9.9.9");
  assert.equal(reachableHost("0.0.0.0", { lo: interfaces.lo }), "127.0.0.1");
});
