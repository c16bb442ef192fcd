import assert from "node:assert/strict";
import { test } from "node:test";
import { firstPace, nextPace, type Pace } from "./pace.ts";

const LEVELS = 5;
const SECOND = 1_000;

/** What a line of so many bytes a second lets through of what is sent at this pace, in one second. */
function carry(pace: Pace, line: number, frame_bytes: number) {
  const wanted = pace.fps * frame_bytes;
  const bytes = Math.min(wanted, line);
  return { elapsed_ms: SECOND, blocked_ms: Math.min(SECOND, (wanted / line) * SECOND), bytes, frames: bytes / frame_bytes };
}

/** The pace after so many seconds on a line; a level costs its part of the bytes. */
function settle(start: Pace, fps: number, line: number, frame_bytes: number, seconds: number, levels = LEVELS): Pace[] {
  const paces = [start];
  for (let i = 0; i < seconds; i += 1) {
    const pace = paces.at(-1)!;
    paces.push(nextPace(pace, fps, levels, carry(pace, line, frame_bytes * 0.6 ** pace.level)));
  }
  return paces;
}

test("a line with room is sent what was asked for", () => {
  const last = settle(firstPace(15), 15, 10_000_000, 20_000, 30).at(-1)!;
  assert.deepEqual([last.fps, last.level, last.budget], [15, 0, Infinity]);
});

test("a line that is too narrow costs rate first, and no quality while a few frames a second are left", () => {
  const paces = settle(firstPace(15), 15, 100_000, 20_000, 60).slice(5);
  for (const { fps, level } of paces) {
    assert.equal(level, 0);
    assert.ok(fps >= 3.5 && fps <= 5.5, `${fps}`);
  }
});

test("the line is not filled: what is sent stays below what it carries most of the time", () => {
  const paces = settle(firstPace(15), 15, 100_000, 20_000, 100).slice(5);
  assert.ok(paces.filter(({ fps }) => fps * 20_000 < 100_000).length > paces.length * 0.8);
});

test("when not even a few frames a second are left, quality and size go down, no further than there are levels", () => {
  const narrow = settle(firstPace(15), 15, 25_000, 20_000, 60);
  assert.ok(narrow.at(-1)!.level >= 2 && narrow.at(-1)!.fps >= 1.5, JSON.stringify(narrow.at(-1)));
  // One level after the other, each with time to show.
  for (let i = 1; i < narrow.length; i += 1) assert.ok(narrow[i]!.level <= narrow[i - 1]!.level + 1);
  const dead = settle(firstPace(15), 15, 500, 20_000, 60).at(-1)!;
  assert.deepEqual([dead.level, dead.fps], [LEVELS - 1, 0.2]);
  assert.equal(settle(firstPace(15), 15, 500, 20_000, 60, 1).at(-1)!.level, 0);
});

test("a second that lets nothing through is taken for what it is", () => {
  const pace = nextPace({ ...firstPace(10), frame_bytes: 20_000 }, 10, LEVELS, {
    elapsed_ms: 5_000,
    blocked_ms: 5_000,
    bytes: 0,
    frames: 0,
  });
  assert.deepEqual([pace.fps, pace.frame_bytes], [0.2, 20_000]);
});

test("what was given up comes back when the line gets wider: size and quality step by step, then the whole rate", () => {
  const narrow = settle(firstPace(15), 15, 25_000, 20_000, 60).at(-1)!;
  const paces = settle(narrow, 15, 5_000_000, 20_000, 240);
  const last = paces.at(-1)!;
  assert.deepEqual([last.level, last.fps], [0, 15]);
  // Not to and fro.
  for (let i = 1; i < paces.length; i += 1) assert.ok(paces[i]!.level <= paces[i - 1]!.level, `${i}`);
});

test("a slow rate that was asked for is not held against the line", () => {
  const last = settle(firstPace(0.5), 0.5, 25_000, 20_000, 60).at(-1)!;
  assert.deepEqual([last.level, last.fps], [0, 0.5]);
});
