import assert from "node:assert/strict";
import { test } from "node:test";
import { trackActivity } from "@robofleet/clock";
import { busSuite } from "./bus-suite.ts";
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

test("activity counts messages until their listeners have ended", async () => {
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

test("messages that nobody subscribed to cost nothing", async () => {
  const { bus, activity } = makeBus();
  bus.publish("nobody", 1);
  assert.equal(activity.pending, 0);
  await bus.close();
});
