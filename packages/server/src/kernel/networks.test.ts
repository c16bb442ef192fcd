import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { clientAddress, networkOf, Networks, parseNetworks, siteOf } from "./networks.ts";
import { AddressRateLimit } from "./rate-limit.ts";

test("parses IPv4 and IPv6 addresses and ranges, and refuses a list with an invalid entry", () => {
  assert.deepEqual(parseNetworks("10.0.0.0/8, 127.0.0.1,fd00::/8,::1"), ["10.0.0.0/8", "127.0.0.1", "fd00::/8", "::1"]);
  for (const text of [
    "",
    "1",
    "true",
    "10.0.0.0/33",
    "fd00::/129",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "10.0.0.0/-1",
    "proxy.example.org",
    "fe80::1%eth0",
    "10.0.0.1,",
  ])
    assert.equal(parseNetworks(text), undefined, text);
});

test("matches an address with the configured ranges, also in its IPv4-mapped IPv6 form", () => {
  const networks = new Networks(["10.0.0.0/8", "127.0.0.1", "fd00::/8"]);
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "127.0.0.1", "::ffff:127.0.0.1", "fd12::1"])
    assert.ok(networks.has(address), address);
  for (const address of ["11.0.0.1", "127.0.0.2", "::1", "fe80::1", "", "unknown", undefined])
    assert.ok(!networks.has(address), String(address));
  assert.ok(!new Networks([]).has("127.0.0.1"));
});

const from = (remoteAddress: string, forwarded?: string | string[]): string =>
  clientAddress(
    { socket: { remoteAddress }, headers: { "x-forwarded-for": forwarded } } as unknown as IncomingMessage,
    new Networks(["10.0.0.0/8"]),
  );

test("uses the client address that the proxy appends, and ignores earlier forged addresses", () => {
  assert.equal(from("10.0.0.1", "198.51.100.7"), "198.51.100.7");
  assert.equal(from("10.0.0.1", "127.0.0.1, 198.51.100.7"), "198.51.100.7");
  assert.equal(from("10.0.0.1", ["1.1.1.1", "198.51.100.7, 10.9.9.9"]), "198.51.100.7");
  assert.equal(from("::ffff:10.0.0.1", "2001:db8::7"), "2001:db8::7");
});

test("ignores X-Forwarded-For from peers that are not proxies, and invalid addresses in it", () => {
  assert.equal(from("198.51.100.7", "127.0.0.1"), "198.51.100.7");
  assert.equal(from("10.0.0.1"), "10.0.0.1");
  assert.equal(from("10.0.0.1", "198.51.100.7, unknown"), "10.0.0.1");
});

test("uses X-Forwarded-Host and X-Forwarded-Proto only from a trusted proxy", () => {
  const proxies = new Networks(["10.0.0.1"]);
  const site = (remoteAddress: string, headers: Record<string, string>, encrypted = false) =>
    siteOf({ socket: { remoteAddress, encrypted }, headers } as unknown as IncomingMessage, proxies);
  assert.deepEqual(site("192.0.2.1", { host: "fleet.test:7600" }), { secure: false, origin: "http://fleet.test:7600" });
  assert.deepEqual(site("192.0.2.1", { host: "FLEET.test:443" }, true), { secure: true, origin: "https://fleet.test" });
  assert.deepEqual(site("192.0.2.1", { host: "[::1]:7600" }), { secure: false, origin: "http://[::1]:7600" });
  const lies = { host: "fleet.test", "x-forwarded-host": "evil.test", "x-forwarded-proto": "https" };
  assert.deepEqual(site("192.0.2.1", lies), { secure: false, origin: "http://fleet.test" });
  assert.deepEqual(site("10.0.0.1", { host: "inner:7600" }), { secure: true, origin: "https://inner:7600" });
  const forwarded = { host: "inner:7600", "x-forwarded-host": "fleet.test", "x-forwarded-proto": "http" };
  assert.deepEqual(site("10.0.0.1", forwarded), { secure: false, origin: "http://fleet.test" });
  // The proxy appends its value as the last one.
  assert.equal(site("10.0.0.1", { host: "x", "x-forwarded-host": "evil.test, fleet.test" }).origin, "https://fleet.test");
  for (const host of [undefined, "", "a/b", "a b", "user@evil.test", "a:b:c"])
    assert.equal(site("192.0.2.1", host === undefined ? {} : { host }).origin, undefined, host);
});

test("groups IPv6 addresses by their /64 network for rate limits, and IPv4 addresses individually", () => {
  const cases: [address: string, network: string][] = [
    ["192.0.2.7", "192.0.2.7"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["::ffff:c000:207", "192.0.2.7"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:DB8:0:0:ffff:ffff:ffff:ffff", "2001:db8:0:0::/64"],
    ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["::1", "0:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["1::", "1:0:0:0::/64"],
    ["unknown", "unknown"],
    ["", ""],
  ];
  for (const [address, network] of cases) assert.equal(networkOf(address), network, address);
});

test("the addresses of one IPv6 /64 share one rate limit", () => {
  const limit = new AddressRateLimit(new SimulatedClock({ at: "2030-01-01T00:00:00Z" }), "guesses", { per_minute: 1, burst: 2 });
  limit.take("2001:db8::1");
  assert.equal(limit.tryTake("2001:db8::2", 1), true);
  assert.throws(() => limit.take("2001:db8::3"), { status: 429 });
  assert.equal(limit.tryTake("2001:db8::4", 1), false);
  assert.equal(limit.tryTake("2001:db8:0:1::1", 1), true);
});
