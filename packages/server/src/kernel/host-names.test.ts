import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { readSettings, type ServeFlags } from "../config.ts";
import { HostNames } from "./host-names.ts";
import { openAuthority } from "./tls/certificate-authority.ts";

function names(flags: ServeFlags, pem?: string) {
  const foreign: string[] = [];
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const hosts = new HostNames({
    settings: readSettings(flags, {}),
    certificate: () => pem,
    clock,
    onForeign: (host) => foreign.push(host),
  });
  return { hosts, foreign, clock };
}

test("a server without settings accepts only the host names of loopback, with any port", () => {
  const { hosts } = names({});
  for (const own of ["localhost", "LOCALHOST:7600", "localhost.", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:7600", "[0:0::1]:1"])
    assert.ok(hosts.has(own), own);
  for (const other of ["", "127.0.0.2:7600", "evil.test", "localhost.evil.test", "[::2]", "192.0.2.1", "a b", "[::1"])
    assert.ok(!hosts.has(other), other);
});

test("a server accepts the host names of its certificate, of --listen and of --host-name", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-names-"));
  try {
    const authority = await openAuthority(directory, new Date());
    const { cert } = await authority.issue(["fleet.test", "*.robots.test", "192.0.2.7", "2001:db8::7"], new Date());
    const { hosts } = names({ listen: "0.0.0.0:7600", tls: "auto", hostName: ["Other.test", "2001:DB8:0::8"] }, cert);
    for (const own of ["fleet.test", "a.robots.test:443", "192.0.2.7:7600", "[2001:db8:0:0::7]", "other.test", "[2001:db8::8]:7600"])
      assert.ok(hosts.has(own), own);
    for (const other of ["0.0.0.0", "localhost", "a.b.robots.test", "192.0.2.8", "robots.test"]) assert.ok(!hosts.has(other), other);
    assert.deepEqual(hosts.list().slice(0, 4), ["other.test", "2001:db8::8", "fleet.test", "*.robots.test"]);
    assert.ok(names({ listen: "192.0.2.9:7600", tls: "auto" }, cert).hosts.has("192.0.2.9"));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("a server behind a proxy accepts every host name until one is configured", () => {
  const proxy = { listen: "0.0.0.0:7600", behindProxy: "10.0.0.1" };
  assert.deepEqual([names(proxy).hosts.is_known, names(proxy).hosts.has("evil.test")], [false, true]);
  const { hosts } = names({ ...proxy, hostName: ["fleet.test"] });
  assert.deepEqual([hosts.is_known, hosts.has("fleet.test:8443"), hosts.has("evil.test")], [true, true, false]);
});

test("the refusal of a host name states the setting to change, and is reported once a minute", async () => {
  const { hosts, foreign, clock } = names({});
  assert.equal(hosts.refusal("localhost:7600"), undefined);
  assert.match(
    hosts.refusal("evil.test") ?? "",
    /host evil\.test, .* answers to 127\.0\.0\.1, localhost, ::1: .* --host-name \(ROAMFLEET_HOST_NAMES\)/,
  );
  hosts.refusal("worse.test");
  assert.deepEqual(foreign, ["evil.test"]);
  await clock.advance({ seconds: 61 });
  hosts.refusal("x".repeat(500));
  assert.deepEqual(foreign, ["evil.test", "x".repeat(100)]);
});
