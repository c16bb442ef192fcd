import assert from "node:assert/strict";
import { test } from "node:test";
import { firstPace, nextPace, type Pace } from "./pace.ts";

const LEVELS = 5;
const SECOND = 1_000;

/** Returns what a network of so many bytes per second carries of this pace, in one second. */
function carry(pace: Pace, line: number, frame_bytes: number) {
  const wanted = pace.fps * frame_bytes;
  const bytes = Math.min(wanted, line);
  return { elapsed_ms: SECOND, blocked_ms: Math.min(SECOND, (wanted / line) * SECOND), bytes, frames: bytes / frame_bytes };
}

/** Returns the paces after each second on a network; a level reduces the bytes by its factor. */
function settle(start: Pace, fps: number, line: number, frame_bytes: number, seconds: number, levels = LEVELS): Pace[] {
  const paces = [start];
  for (let i = 0; i < seconds; i += 1) {
    const pace = paces.at(-1)!;
    paces.push(nextPace(pace, fps, levels, carry(pace, line, frame_bytes * 0.6 ** pace.level)));
  }
  return paces;
}

test("a fast network gets the requested rate", () => {
  const last = settle(firstPace(15), 15, 10_000_000, 20_000, 30).at(-1)!;
  assert.deepEqual([last.fps, last.level, last.budget], [15, 0, Infinity]);
});

test("a slow network reduces the rate first, and no quality while a few frames a second are left", () => {
  const paces = settle(firstPace(15), 15, 100_000, 20_000, 60).slice(5);
  for (const { fps, level } of paces) {
    assert.equal(level, 0);
    assert.ok(fps >= 3.5 && fps <= 5.5, `${fps}`);
  }
});

test("the network is not saturated: the rate stays below its capacity most of the time", () => {
  const paces = settle(firstPace(15), 15, 100_000, 20_000, 100).slice(5);
  assert.ok(paces.filter(({ fps }) => fps * 20_000 < 100_000).length > paces.length * 0.8);
});

test("below a few frames a second quality and size are reduced, down to the last level", () => {
  const narrow = settle(firstPace(15), 15, 25_000, 20_000, 60);
  assert.ok(narrow.at(-1)!.level >= 2 && narrow.at(-1)!.fps >= 1.5, JSON.stringify(narrow.at(-1)));
  // One level at a time, each with time to take effect.
  for (let i = 1; i < narrow.length; i += 1) assert.ok(narrow[i]!.level <= narrow[i - 1]!.level + 1);
  const dead = settle(firstPace(15), 15, 500, 20_000, 60).at(-1)!;
  assert.deepEqual([dead.level, dead.fps], [LEVELS - 1, 0.2]);
  assert.equal(settle(firstPace(15), 15, 500, 20_000, 60, 1).at(-1)!.level, 0);
});

test("a second without any data lowers the budget", () => {
  const pace = nextPace({ ...firstPace(10), frame_bytes: 20_000 }, 10, LEVELS, {
    elapsed_ms: 5_000,
    blocked_ms: 5_000,
    bytes: 0,
    frames: 0,
  });
  assert.deepEqual([pace.fps, pace.frame_bytes], [0.2, 20_000]);
});

test("on a faster network size and quality recover step by step, then the rate", () => {
  const narrow = settle(firstPace(15), 15, 25_000, 20_000, 60).at(-1)!;
  const paces = settle(narrow, 15, 5_000_000, 20_000, 240);
  const last = paces.at(-1)!;
  assert.deepEqual([last.level, last.fps], [0, 15]);
  // Without oscillation.
  for (let i = 1; i < paces.length; i += 1) assert.ok(paces[i]!.level <= paces[i - 1]!.level, `${i}`);
});

test("a low requested rate does not count as a slow network", () => {
  const last = settle(firstPace(0.5), 0.5, 25_000, 20_000, 60).at(-1)!;
  assert.deepEqual([last.level, last.fps], [0, 0.5]);
});
