import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { Channel, readMessage } from "@roamfleet/protocol/link";
import { CameraOutput, firstPace, nextPace, type Pace } from "./shared-source.ts";

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

test("sends every frame of a camera at the requested rate, even with jitter", LIMIT, async () => {
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

test("sends the newest frame of a faster camera at the requested rate", LIMIT, async () => {
  const { sent, offer } = output(2);
  await offer(100, 40);
  // The frames span four seconds.
  assert.ok(sent.length >= 8 && sent.length <= 9, String(sent));
  for (let i = 2; i < sent.length; i += 1) assert.ok(sent[i]! - sent[i - 1]! >= 12, String(sent));
});

test("keeps only the newest frame while another frame is being sent", LIMIT, async () => {
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

test("delays a camera frame that arrives early, and replaces it by a newer frame", LIMIT, async () => {
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

const LEVELS = 5;
const SECOND = 1_000;

/** Returns what a network of `line` bytes per second carries of `pace` in one second. */
function carry(pace: Pace, line: number, frame_bytes: number) {
  const wanted = pace.fps * frame_bytes;
  const bytes = Math.min(wanted, line);
  return { elapsed_ms: SECOND, blocked_ms: Math.min(SECOND, (wanted / line) * SECOND), bytes, frames: bytes / frame_bytes };
}

/** Returns the pace after each second on such a network. Each level reduces the bytes of a frame by 40%. */
function settle(start: Pace, fps: number, line: number, frame_bytes: number, seconds: number, levels = LEVELS): Pace[] {
  const paces = [start];
  for (let i = 0; i < seconds; i += 1) {
    const pace = paces.at(-1)!;
    paces.push(nextPace(pace, fps, levels, carry(pace, line, frame_bytes * 0.6 ** pace.level)));
  }
  return paces;
}

test("sends the requested frame rate on a fast network", () => {
  const last = settle(firstPace(15), 15, 10_000_000, 20_000, 30).at(-1)!;
  assert.deepEqual([last.fps, last.level, last.budget], [15, 0, Infinity]);
});

test("reduces the frame rate before the picture quality on a slow network", () => {
  const paces = settle(firstPace(15), 15, 100_000, 20_000, 60).slice(5);
  for (const { fps, level } of paces) {
    assert.equal(level, 0);
    assert.ok(fps >= 3.5 && fps <= 5.5, `${fps}`);
  }
});

test("keeps the camera's data rate below the network's capacity most of the time", () => {
  const paces = settle(firstPace(15), 15, 100_000, 20_000, 100).slice(5);
  assert.ok(paces.filter(({ fps }) => fps * 20_000 < 100_000).length > paces.length * 0.8);
});

test("reduces picture quality when the network carries less than a few frames per second", () => {
  const narrow = settle(firstPace(15), 15, 25_000, 20_000, 60);
  assert.ok(narrow.at(-1)!.level >= 2 && narrow.at(-1)!.fps >= 1.5, JSON.stringify(narrow.at(-1)));
  // The level rises by at most one per step.
  for (let i = 1; i < narrow.length; i += 1) assert.ok(narrow[i]!.level <= narrow[i - 1]!.level + 1);
  const dead = settle(firstPace(15), 15, 500, 20_000, 60).at(-1)!;
  assert.deepEqual([dead.level, dead.fps], [LEVELS - 1, 0.2]);
  assert.equal(settle(firstPace(15), 15, 500, 20_000, 60, 1).at(-1)!.level, 0);
});

test("lowers the frame rate when the network carries no data", () => {
  const pace = nextPace({ ...firstPace(10), frame_bytes: 20_000 }, 10, LEVELS, {
    elapsed_ms: 5_000,
    blocked_ms: 5_000,
    bytes: 0,
    frames: 0,
  });
  assert.deepEqual([pace.fps, pace.frame_bytes], [0.2, 20_000]);
});

test("restores picture quality and frame rate when the network becomes faster", () => {
  const narrow = settle(firstPace(15), 15, 25_000, 20_000, 60).at(-1)!;
  const paces = settle(narrow, 15, 5_000_000, 20_000, 240);
  const last = paces.at(-1)!;
  assert.deepEqual([last.level, last.fps], [0, 15]);
  // The level does not oscillate.
  for (let i = 1; i < paces.length; i += 1) assert.ok(paces[i]!.level <= paces[i - 1]!.level, `${i}`);
});

test("a low requested frame rate does not count as a slow network", () => {
  const last = settle(firstPace(0.5), 0.5, 25_000, 20_000, 60).at(-1)!;
  assert.deepEqual([last.level, last.fps], [0, 0.5]);
});
