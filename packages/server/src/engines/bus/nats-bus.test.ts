import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { busSuite } from "./testing/bus-suite.ts";
import { NatsBus, natsBus } from "./nats-bus.ts";
import { listen, listenConnected, passed } from "./testing/listening.ts";
import { NatsServer, SKIP_NATS } from "./testing/nats-server.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 120_000 };
const messages = ({ logged }: { logged: { message: string }[] }): string[] => logged.map(({ message }) => message);

busSuite(
  "bus on NATS",
  async () => {
    const nats = await NatsServer.start();
    let errors = 0;
    const log = { info() {}, warn() {}, error: () => void (errors += 1) };
    const make = () => natsBus({ address: nats.address(), clock: systemClock, log });
    const [publisher, subscriber] = [await make(), await make()];
    return {
      publisher,
      subscriber,
      errors: () => errors,
      loseMessages: () => nats.restart(),
      async close() {
        await Promise.all([publisher.close(), subscriber.close()]);
        await nats[Symbol.asyncDispose]();
      },
    };
  },
  { skip: SKIP_NATS },
);

test("delivers each message once and in order to the subscribers of all nodes", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using here = await listenConnected({ address: nats.address() });
  await using there = await listenConnected({ address: nats.address() });
  await passed(here.bus, there.bus);
  const sent = Array.from({ length: 500 }, (_, i) => i);
  for (const i of sent) here.bus.publish("rf.test", i);
  await passed(here.bus, there.bus);
  await passed(there.bus, here.bus);
  assert.deepEqual(here.heard, sent);
  assert.deepEqual(there.heard, sent);
});

test("reports a message gap to every node after NATS restarts, and delivers later messages", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using here = await listenConnected({ address: nats.address() });
  await using there = await listenConnected({ address: nats.address() });
  const before = [here.gaps(), there.gaps()] as const;
  await nats.kill();
  await until("both know", () => !here.bus.connected && !there.bus.connected);
  here.bus.publish("rf.test", "during the outage");
  await until("hints inside of a node arrive meanwhile", () => here.heard.length === 1);
  await nats.restart();
  await until("both report the gap", () => here.gaps() > before[0] && there.gaps() > before[1]);
  here.bus.publish("rf.test", "afterwards");
  await passed(here.bus, there.bus);
  assert.deepEqual(there.heard.slice(-1), ["afterwards"]);
  const [connected, away] = ["the bus is connected", "the bus is unreachable: updates from other servers are delayed"];
  assert.deepEqual(messages(here), [connected, away, connected]);
  assert.deepEqual(messages(there), [connected, away, connected]);
});

test("a node works without NATS, and connects when NATS becomes available", OPTIONS, async () => {
  await using nats = await NatsServer.start({ start: false });
  const states: boolean[] = [];
  await using here = await listen({ address: nats.address(), onConnected: (connected) => void states.push(connected) });
  await using there = await listen({ address: nats.address() });
  here.bus.publish("rf.test", 1);
  await until("it is heard here", () => here.heard.length === 1);
  await until("the log says so", () => here.logged.length > 0 && there.logged.length > 0);
  assert.equal(here.bus.connected, false);
  await nats.restart();
  await until("both are connected, and read again", () => here.gaps() > 0 && there.gaps() > 0);
  await passed(here.bus, there.bus);
  here.bus.publish("rf.test", 2);
  await passed(here.bus, there.bus);
  assert.deepEqual(here.heard, [1, 2]);
  assert.deepEqual(there.heard.slice(-1), [2]);
  assert.deepEqual(states, [false, true]);
  assert.equal(here.logged.length, 2);
});

test(
  "waits only briefly for a subscription's confirmation, and reports a message gap once the subscription is active",
  OPTIONS,
  async () => {
    await using nats = await NatsServer.start();
    const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
    await using here = await listenConnected({ address: nats.address(), clock });
    await using there = await listenConnected({ address: nats.address() });
    await passed(there.bus, here.bus);
    const before = here.gaps();
    await nats.freeze();
    const heard: unknown[] = [];
    here.bus.subscribe("rf.late", (message) => void heard.push(message));
    const subscribed = here.bus.subscribed();
    await clock.advance({ seconds: 2 });
    await subscribed;
    assert.equal(here.gaps(), before);
    nats.thaw();
    await until("a gap is announced", () => here.gaps() > before);
    there.bus.publish("rf.late", 1);
    await until("what is published after it is heard", () => heard.length === 1);
  },
);

test("drops the connection to a frozen NATS after missed pings, and delivers no message twice", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using here = await listenConnected({ address: nats.address(), ping_every_ms: 100 });
  await using there = await listenConnected({ address: nats.address(), ping_every_ms: 100 });
  await passed(here.bus, there.bus);
  const before = [here.gaps(), there.gaps()] as const;
  await nats.freeze();
  let sent = 0;
  // Send more than the buffers of the connection take. The connection must be dropped even though its data cannot be flushed.
  const filler = "x".repeat(50_000);
  await until("both gave it up", () => {
    for (let i = 0; i < 10 && sent < 600; i += 1) here.bus.publish("rf.test", { n: (sent += 1), filler });
    return !here.bus.connected && !there.bus.connected;
  });
  nats.thaw();
  await until("both report the gap", () => here.gaps() > before[0] && there.gaps() > before[1]);
  await passed(here.bus, there.bus);
  const numbers = (heard: unknown[]): number[] => heard.map((message) => (message as { n: number }).n);
  assert.deepEqual(
    numbers(here.heard),
    Array.from({ length: sent }, (_, i) => i + 1),
  );
  const there_heard = numbers(there.heard);
  assert.equal(new Set(there_heard).size, there_heard.length);
});

test("two processes exchange messages over NATS", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using here = await listenConnected({ address: nats.address() });
  const child = spawn(process.execPath, [new URL("testing/echo-process.ts", import.meta.url).pathname, nats.url()], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  const ended = once(child, "exit");
  await until("the other process answers", () => {
    here.bus.publish("rf.question", "who is there?");
    return here.heard.length > 0;
  });
  assert.deepEqual(here.heard[0], { answer: "who is there?", pid: child.pid });
  here.bus.publish("rf.end", null);
  assert.deepEqual(await ended, [0, null]);
});

test("logs refused credentials once, without their values", OPTIONS, async () => {
  await using nats = await NatsServer.start({ config: 'authorization { user: fleet, password: "s3cret-p@ss", timeout: 2 }' });
  await using wrong = await listen({ address: nats.address({ user: "fleet:wr0ng-p%40ss" }) });
  await using right = await listenConnected({ address: nats.address({ user: "fleet:s3cret-p%40ss" }) });
  await until("the refusal is in the log", () => wrong.logged.length > 0);
  right.bus.publish("rf.test", 1);
  await passed(right.bus, right.bus);
  assert.deepEqual(
    wrong.logged.map(({ level, message }) => [level, message]),
    [["error", "the bus refuses the credentials in ROAMFLEET_BUS_URL"]],
  );
  assert.equal(wrong.bus.connected, false);
  assert.doesNotMatch(JSON.stringify([wrong.logged, right.logged]), /wr0ng|s3cret/);
});

test("installations with different prefixes share a NATS server without receiving each other's messages", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using ours = await listenConnected({ address: nats.address({ prefix: "one" }) });
  await using other = await listenConnected({ address: nats.address({ prefix: "two" }) });
  await using third = await listenConnected({ address: nats.address({ prefix: "one" }) });
  const before = other.gaps();
  ours.bus.publish("rf.test", 1);
  ours.bus.publish("rf.large", "x".repeat(1_000_001));
  await until("its own nodes hear", () => third.heard.length === 1 && third.gaps() > 1);
  await passed(other.bus, other.bus);
  assert.deepEqual(other.heard, []);
  assert.equal(other.gaps(), before);
});

test("delivers a message above NATS's size limit locally, and reports a message gap to other nodes", OPTIONS, async () => {
  await using nats = await NatsServer.start({ config: "max_payload: 20000" });
  await using here = await listenConnected({ address: nats.address(), message_bytes_max: 50_000 });
  await using there = await listenConnected({ address: nats.address() });
  await passed(here.bus, there.bus);
  for (const [gaps, length] of [
    [1, 30_000],
    [2, 60_000],
  ] as const) {
    const before = there.gaps();
    here.bus.publish("rf.test", "x".repeat(length));
    await until("the other node reports a gap", () => there.gaps() > before);
    await until("it is heard here", () => here.heard.length === gaps);
  }
  here.bus.publish("rf.test", "small");
  await passed(here.bus, there.bus);
  assert.deepEqual(there.heard, ["small"]);
  assert.equal(here.bus.connected, true);
  assert.equal(here.gaps(), 1);
});

test("reports a message gap for an undecodable message, logs it at debug level and continues", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using here = await listenConnected({ address: nats.address() });
  const stranger = await connect({ servers: `127.0.0.1:${nats.port}` });
  const before = here.gaps();
  const undecodable = ["", "{", "null", "7", '{"message":1}'];
  for (const text of undecodable) stranger.publish("roamfleet.hint.rf.test", text);
  await stranger.flush();
  await stranger.close();
  await until("a gap is announced", () => here.gaps() > before);
  const malformed = (): string[] =>
    here.logged.filter(({ message }) => message === "ignored a malformed message of the bus").map(({ level }) => level);
  await until("every message is logged", () => malformed().length === undecodable.length);
  assert.deepEqual(new Set(malformed()), new Set(["debug"]));
  assert.deepEqual(here.heard, []);
  assert.equal(here.bus.connected, true);
});

test("writes one log line for a subscription that NATS refuses, and the other subscriptions continue", OPTIONS, async () => {
  await using nats = await NatsServer.start({
    config:
      'authorization { users: [{ user: u, password: p, permissions: { publish: "roamfleet.>", subscribe: { deny: "roamfleet.hint.rf.no" } } }] }',
  });
  await using here = await listenConnected({ address: nats.address({ user: "u:p" }) });
  await using there = await listenConnected({ address: nats.address({ user: "u:p" }) });
  const before = there.gaps();
  there.bus.subscribe("rf.no", () => assert.fail("heard what it may not"));
  await until("a gap is reported", () => there.gaps() > before);
  here.bus.publish("rf.no", 1);
  here.bus.publish("rf.test", 1);
  await until("what it may hear arrives", () => there.heard.length === 1);
  assert.equal(there.logged.filter(({ message }) => message === "the bus reported an error").length, 1);
});

test("sends pending messages before the bus is closed, and receives none afterwards", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  const here = await listenConnected({ address: nats.address() });
  await using there = await listenConnected({ address: nats.address() });
  for (let i = 0; i < 1_000; i += 1) here.bus.publish("rf.test", i);
  await here.bus.close();
  await until("all of it arrives", () => there.heard.length === 1_000);
  there.bus.publish("rf.test", "too late");
  await passed(there.bus, there.bus);
  assert.ok(!here.heard.includes("too late"));
  const gaps = here.gaps();
  await nats.restart();
  await until("the others are back", () => there.bus.connected && there.gaps() > 1);
  assert.equal(here.gaps(), gaps);
});

test("closes the connection of a bus that is closed while it connects", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  const log = { info() {}, warn() {}, error() {} };
  // Closes the bus after a number of microtasks: before, while and after it takes over the connection.
  for (let turns = 0; turns < 6; turns += 1) {
    let made: NatsConnection | undefined;
    const bus = new NatsBus(
      async (options) => {
        made = await connect(options);
        void after(turns, () => bus.close());
        return made;
      },
      { address: nats.address(), clock: systemClock, log },
    );
    await until(`the connection to be closed, after ${turns} turns`, () => made?.isClosed());
    await bus.close();
  }
});

async function after(turns: number, then: () => Promise<void>): Promise<void> {
  for (let n = 0; n < turns; n += 1) await Promise.resolve();
  await then();
}
