import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import {
  HandshakeAdmission,
  KNOWN_HANDSHAKES_PER_NETWORK_MAX,
  UNKNOWN_HANDSHAKES_MAX,
  UNKNOWN_HANDSHAKES_PER_NETWORK_MAX,
  UNKNOWN_RATE,
} from "./node-listener.ts";

const admission = (): HandshakeAdmission => new HandshakeAdmission(new SimulatedClock({ at: "2030-01-01T00:00:00Z" }));

test("limits concurrent handshakes per network, where an IPv6 /64 is one network", () => {
  const it = admission();
  const entered = Array.from({ length: UNKNOWN_HANDSHAKES_PER_NETWORK_MAX + 2 }, (_, i) => it.enter(`2001:db8::${i + 1}`));
  assert.equal(entered.filter((release) => release !== undefined).length, UNKNOWN_HANDSHAKES_PER_NETWORK_MAX);
  assert.ok(it.enter("2001:db8:0:1::1"), "another network has its own slots");
  entered[0]?.();
  entered[0]?.();
  assert.ok(it.enter("2001:db8::99"), "a released place is free again, once");
  assert.equal(it.enter("2001:db8::98"), undefined);
});

test("handshakes of unknown networks leave slots free for known nodes", () => {
  const it = admission();
  it.remember("10.0.0.7");
  const strangers = Array.from({ length: 1_000 }, (_, i) => it.enter(`192.0.${i >> 8}.${i & 255}`));
  assert.equal(strangers.filter((release) => release !== undefined).length, UNKNOWN_HANDSHAKES_MAX);
  const of_node = Array.from({ length: 1_000 }, () => it.enter("10.0.0.7"));
  assert.equal(
    of_node.filter((release) => release !== undefined).length,
    KNOWN_HANDSHAKES_PER_NETWORK_MAX,
    "and a known network has its own bound",
  );
});

test("limits the handshake rate of a network whose handshakes keep failing", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const it = new HandshakeAdmission(clock);
  const attempt = (): boolean => {
    const release = it.enter("192.0.2.1");
    release?.();
    return release !== undefined;
  };
  assert.equal(Array.from({ length: 2_000 }, attempt).filter(Boolean).length, UNKNOWN_RATE.burst);
  await clock.advance({ seconds: 10 });
  assert.equal(Array.from({ length: 2_000 }, attempt).filter(Boolean).length, UNKNOWN_RATE.burst);
});
