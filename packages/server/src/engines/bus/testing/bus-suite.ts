import assert from "node:assert/strict";
import { test } from "node:test";
import { UNTIL_MS, until } from "@roamfleet/clock/testing";
import type { JsonValue } from "@roamfleet/protocol";
import type { Bus } from "../bus.ts";

export interface BusUnderTest {
  /** The two ends of the bus under test. They are the same object if the bus works within one process. */
  publisher: Bus;
  subscriber: Bus;
  /** Returns the number of logged errors. */
  errors: () => number;
  /** Makes the subscriber lose messages. */
  loseMessages: () => Promise<void>;
  close(): Promise<void>;
}

const TIMEOUT = { timeout: 120_000 };

/** Runs the tests that every implementation of a bus must pass. `skip` states why they cannot run here. */
export function busSuite(name: string, make: () => Promise<BusUnderTest>, { skip = false }: { skip?: string | false } = {}): void {
  const check = (behavior: string, body: (bus: BusUnderTest) => Promise<void>): void => {
    test(`${name}: ${behavior}`, { ...TIMEOUT, skip }, async () => {
      const bus = await make();
      try {
        await body(bus);
      } finally {
        await bus.close();
      }
    });
  };

  check("delivers messages in order to every subscriber of their subject, and to no others", async ({ publisher, subscriber }) => {
    const seen: Array<[string, JsonValue, string]> = [];
    for (const listener of ["a", "b"])
      subscriber.subscribe("rf.node.1", (message, subject) => void seen.push([listener, message, subject]));
    subscriber.subscribe("rf.node.2", (message) => void seen.push(["other", message, ""]));
    const done = nextMessage(subscriber, "end");
    await settle(publisher, subscriber);
    for (const message of [1, { deep: ["x", null] }]) publisher.publish("rf.node.1", message);
    publisher.publish("end", null);
    await done;
    assert.deepEqual(seen, [
      ["a", 1, "rf.node.1"],
      ["b", 1, "rf.node.1"],
      ["a", { deep: ["x", null] }, "rf.node.1"],
      ["b", { deep: ["x", null] }, "rf.node.1"],
    ]);
  });

  check("delivers messages that are published after subscribed() resolves", async ({ publisher, subscriber }) => {
    await settle(publisher, subscriber);
    for (let n = 0; n < 100; n += 1) {
      const heard = nextMessage(subscriber, `subject.${n}`);
      await subscriber.subscribed();
      publisher.publish(`subject.${n}`, n);
      assert.equal(await heard, n);
    }
  });

  check("publish returns before delivery", async ({ publisher, subscriber }) => {
    let heard = false;
    const done = nextMessage(subscriber, "s").then(() => (heard = true));
    await settle(publisher, subscriber);
    publisher.publish("s", 1);
    assert.equal(heard, false);
    await done;
  });

  check("changing an object after its publication does not change the message", async ({ publisher, subscriber }) => {
    const done = nextMessage(subscriber, "copy");
    await settle(publisher, subscriber);
    const message = { list: [1] };
    publisher.publish("copy", message);
    message.list.push(2);
    assert.deepEqual(await done, { list: [1] });
  });

  check("a listener that is subscribed twice gets each message twice", async ({ publisher, subscriber }) => {
    let count = 0;
    const listener = (): void => void (count += 1);
    const end = subscriber.subscribe("twice", listener);
    subscriber.subscribe("twice", listener);
    await settle(publisher, subscriber);
    publisher.publish("twice", 1);
    await barrier(publisher, subscriber);
    assert.equal(count, 2);
    end();
    end();
    publisher.publish("twice", 2);
    await barrier(publisher, subscriber);
    assert.equal(count, 3);
  });

  check("an error of a listener is logged and does not affect other listeners", async ({ publisher, subscriber, errors }) => {
    subscriber.subscribe("fail", () => {
      throw new Error("planned: thrown");
    });
    subscriber.subscribe("fail", () => Promise.reject(new Error("planned: rejected")));
    const done = nextMessage(subscriber, "fail");
    await settle(publisher, subscriber);
    const before = errors();
    publisher.publish("fail", 1);
    await done;
    await barrier(publisher, subscriber);
    assert.equal(errors() - before, 2);
  });

  check("reports a gap when messages are lost, and delivers later ones", async ({ publisher, subscriber, loseMessages }) => {
    const gap = Promise.withResolvers<void>();
    subscriber.onGap(gap.resolve);
    const unwanted = subscriber.onGap(() => assert.fail("an ended gap subscription"));
    unwanted();
    await settle(publisher, subscriber);
    await loseMessages();
    await withDeadline(gap.promise, "no gap was announced");
    await barrier(publisher, subscriber);
  });

  check("a closed bus delivers nothing and ignores publish", async ({ publisher, subscriber }) => {
    let heard = 0;
    subscriber.subscribe("closed", () => void (heard += 1));
    await settle(publisher, subscriber);
    publisher.publish("closed", 1);
    await subscriber.close();
    const at_close = heard;
    subscriber.publish("closed", 2);
    publisher.publish("closed", 3);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(heard, at_close);
    await subscriber.close();
  });
}

function nextMessage(bus: Bus, subject: string): Promise<JsonValue> {
  const { promise, resolve } = Promise.withResolvers<JsonValue>();
  const end = bus.subscribe(subject, (message) => {
    end();
    resolve(message);
  });
  return withDeadline(promise, `nothing on ${subject}`);
}

let barriers = 0;

/** Resolves when all earlier messages have been delivered. */
async function barrier(publisher: Bus, subscriber: Bus): Promise<void> {
  barriers += 1;
  const subject = `barrier.${barriers}`;
  let passed = false;
  const end = subscriber.subscribe(subject, () => void (passed = true));
  // Publishes repeatedly, because a subscription on a bus between processes becomes active with a delay.
  await until(
    "what was published to arrive",
    () => {
      if (!passed) publisher.publish(subject, null);
      return passed;
    },
    { poll_ms: 5 },
  );
  end();
}

/** Resolves when the subscriptions made so far are active. */
const settle = barrier;

function withDeadline<T>(promise: Promise<T>, problem: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`${problem} within ${UNTIL_MS} ms`)), UNTIL_MS);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
