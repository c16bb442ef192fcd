import assert from "node:assert/strict";
import { test } from "node:test";
import { trackActivity } from "@roamfleet/clock";
import { busSuite } from "./testing/bus-suite.ts";
import { isText, readHint } from "./bus.ts";
import { localBus } from "./local-bus.ts";

const QUEUE_MESSAGES_MAX = 1_000;

function makeBus() {
  let errors = 0;
  const log = { info() {}, warn() {}, error: () => void (errors += 1) };
  const activity = trackActivity();
  const bus = localBus({ log, activity, queue_messages_max: QUEUE_MESSAGES_MAX });
  return { bus, activity, errors: () => errors };
}

busSuite("local bus", async () => {
  const { bus, errors } = makeBus();
  return await Promise.resolve({
    publisher: bus,
    subscriber: bus,
    errors,
    async loseMessages() {
      bus.subscribe("flood", () => {});
      for (let i = 0; i <= QUEUE_MESSAGES_MAX; i += 1) bus.publish("flood", i);
      await Promise.resolve();
    },
    close: () => bus.close(),
  });
});

test("counts a message as activity until its listeners have finished", async () => {
  const { bus, activity } = makeBus();
  const { promise, resolve } = Promise.withResolvers<void>();
  bus.subscribe("s", () => promise);
  bus.publish("s", 1);
  assert.equal(activity.pending, 1);
  await new Promise((done) => setImmediate(done));
  assert.equal(activity.pending, 1);
  resolve();
  await activity.idle();
  bus.publish("s", 2);
  await bus.close();
  assert.equal(activity.pending, 0);
});

test("logs a malformed message at debug level, and other listener errors at error level", async () => {
  const lines: string[] = [];
  const at = (level: string) => (_: object, message: string) => void lines.push(`${level}: ${message}`);
  const activity = trackActivity();
  const bus = localBus({ log: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }, activity });
  bus.subscribe("hint", (message) => void readHint<{ id: string }>(message, { id: isText }));
  bus.subscribe("failing", () => {
    throw new Error("planned");
  });
  for (const message of [null, "text", [1], { id: 1 }]) bus.publish("hint", message);
  bus.publish("hint", { id: "a" });
  bus.publish("failing", 1);
  await activity.idle();
  await bus.close();
  assert.deepEqual(lines, [
    ...Array.from({ length: 4 }, () => "debug: ignored a malformed message of the bus"),
    "error: a bus listener failed",
  ]);
});

test("does not queue a message without subscribers", async () => {
  const { bus, activity } = makeBus();
  bus.publish("rf.without-subscribers", 1);
  assert.equal(activity.pending, 0);
  await bus.close();
});
