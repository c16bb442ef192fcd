import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { Channel, readMessage } from "@roamfleet/protocol/link";
import { CameraOutput } from "./camera-output.ts";

const LIMIT = { timeout: 120_000 };
const frame = (number: number): Uint8Array => Uint8Array.of(number);

/** A channel whose queue accepts one message, and sends it when the test decides. */
function output(fps: number) {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const sent: number[] = [];
  let stuck = false;
  let waiting = false;
  const channel = new Channel(
    {
      send: (_channel, message) => {
        if (waiting) return false;
        sent.push(readMessage(message).data![0]!);
        waiting = stuck;
        return true;
      },
      waiting: () => waiting,
      grant: () => {},
      end: () => {},
    },
    2,
    "camera",
  );
  const one = new CameraOutput(channel, clock, fps);
  return {
    clock,
    sent,
    one,
    /** Offers `count` frames at a fixed interval, numbered from 1. */
    offer: async (count: number, each_ms: number): Promise<void> => {
      for (let i = 1; i <= count; i += 1) {
        one.offer(frame(i));
        await clock.advance({ milliseconds: each_ms });
      }
    },
    stick: () => (stuck = true),
    free: async (): Promise<void> => {
      stuck = waiting = false;
      channel.retry();
      await clock.advance({ milliseconds: 0 });
    },
  };
}

test("a source at the requested rate loses no frame, even with jitter", LIMIT, async () => {
  const { sent, one, clock } = output(10);
  for (let i = 1; i <= 20; i += 1) {
    one.offer(frame(i));
    await clock.advance({ milliseconds: i % 2 === 0 ? 80 : 120 });
  }
  assert.deepEqual(
    sent,
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
});

test("of a faster source the newest frame is sent at the requested rate", LIMIT, async () => {
  const { sent, offer } = output(2);
  await offer(100, 40);
  // Four seconds.
  assert.ok(sent.length >= 8 && sent.length <= 9, String(sent));
  for (let i = 2; i < sent.length; i += 1) assert.ok(sent[i]! - sent[i - 1]! >= 12, String(sent));
});

test("while a frame is being sent only the newest one waits and older ones are dropped", LIMIT, async () => {
  const { sent, stick, free, offer, one, clock } = output(30);
  stick();
  await offer(50, 40);
  assert.deepEqual(sent, [1]);
  assert.deepEqual(one.carried(), undefined, "nothing was sent, and too little time has passed for an estimate");
  await free();
  assert.deepEqual(sent, [1, 50]);
  const carried = one.carried()!;
  assert.deepEqual([carried.frames, carried.bytes, carried.elapsed_ms, carried.blocked_ms], [2, 2, 2_000, 2_000]);
  stick();
  one.offer(frame(60));
  await clock.advance({ milliseconds: 5_000 });
  assert.deepEqual(one.carried(), { elapsed_ms: 5_000, blocked_ms: 5_000, bytes: 0, frames: 0 });
});

test("a frame that came too early is sent when it is due, unless a newer one replaces it", LIMIT, async () => {
  const { sent, one, clock } = output(1);
  one.offer(frame(1));
  one.offer(frame(2));
  one.offer(frame(3));
  await clock.advance({ milliseconds: 1_000 });
  assert.deepEqual(sent, [1, 3]);
  one.offer(frame(4));
  one.stop();
  await clock.advance({ milliseconds: 5_000 });
  assert.deepEqual(sent, [1, 3]);
});
