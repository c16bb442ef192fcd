// Separate process: this test measures the memory of its process.
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { listenConnected, passed } from "../../packages/server/src/engines/bus/testing/listening.ts";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { Proxy } from "../harness/proxy.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 300_000 };
const KEPT_MAX = 50;

test("a node buffers a bounded number of messages while disconnected from NATS, and reports a gap afterwards", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using proxy = await Proxy.start(nats.port);
  await using cut = await listenConnected({ address: nats.address({ port: proxy.port }), outgoing_messages_max: KEPT_MAX });
  await using other = await listenConnected({ address: nats.address() });
  await passed(cut.bus, other.bus);
  const before = other.gaps();
  proxy.refuse(true);
  proxy.reset();
  await until("it knows", () => !cut.bus.connected);
  const filler = "x".repeat(1_000);
  const memory = process.memoryUsage().arrayBuffers;
  for (let n = 1; n <= 20_000; n += 1) cut.bus.publish("rf.test", { n, filler });
  assert.ok(process.memoryUsage().arrayBuffers - memory < 10_000_000, "20 MB were kept");
  await until("its own listeners have heard them all", () => cut.heard.length === 20_000);
  proxy.refuse(false);
  await until("the others to notice missed messages", () => other.gaps() > before);
  await passed(cut.bus, other.bus);
  const numbers = other.heard.map((message) => (message as { n: number }).n);
  assert.deepEqual(
    numbers,
    Array.from({ length: KEPT_MAX }, (_, i) => i + 1),
  );
  assert.equal(other.gaps(), before + 1);
  assert.equal(cut.gaps(), 2);
});

test("nodes are notified of a gap if another node's broken connection has lost a message", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using proxy = await Proxy.start(nats.port);
  await using cut = await listenConnected({ address: nats.address({ port: proxy.port }), ping_every_ms: 1_000 });
  await using other = await listenConnected({ address: nats.address() });
  await passed(cut.bus, other.bus);
  const before = other.gaps();
  proxy.blackHole(true);
  cut.bus.publish("rf.test", "swallowed");
  await until("it gave the connection up", () => !cut.bus.connected);
  proxy.blackHole(false);
  proxy.reset();
  await until("the others to be notified", () => other.gaps() > before);
  cut.bus.publish("rf.test", "afterwards");
  await passed(cut.bus, other.bus);
  assert.deepEqual(other.heard, ["afterwards"]);
  assert.equal(other.logged.length, 1);
});
