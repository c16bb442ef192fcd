import assert from "node:assert/strict";
import { test } from "node:test";
import { castSize, clockText, countUntil, parseCast, shortenPauses } from "./asciicast.ts";

const CAST = [
  '{"version":2,"width":100,"height":30}',
  '[0.5,"o","$ "]',
  '[1,"i","typed"]',
  '[1.5,"r","120x40"]',
  '[61.5,"o","done\\r\\n"]',
  '[61,"m","exit 0"]',
  '[62,"o","ha',
].join("\n");

test("parses a shell recording and skips invalid or incomplete lines", async () => {
  const { cols, rows, events, duration } = await parseCast(CAST);
  assert.deepEqual([cols, rows, duration], [100, 30, 61.5]);
  assert.deepEqual(
    events.map(({ at, kind, text }) => [at, kind, text]),
    [
      [0.5, "output", "$ "],
      [1.5, "resize", "120x40"],
      [61.5, "output", "done\r\n"],
      [61.5, "mark", "exit 0"],
    ],
  );
});

test("returns no events for a file that is not a shell recording", async () => {
  assert.deepEqual(await parseCast(""), { cols: 80, rows: 24, events: [], duration: 0 });
  assert.deepEqual((await parseCast('{"width":0,"height":5000}\n[1e999,"o","x"]\nnull')).events, []);
});

test("shortens the pauses of a shell recording and adjusts its duration", async () => {
  const cast = await parseCast(CAST);
  const short = shortenPauses(cast, 2);
  assert.deepEqual(
    short.events.map(({ at }) => at),
    [0.5, 1.5, 3.5, 3.5],
  );
  assert.equal(short.duration, 3.5);
  assert.equal(shortenPauses(cast, undefined).duration, 61.5);
});

test("counts the events of a shell recording up to and including a time", async () => {
  const { events } = await parseCast(CAST);
  assert.deepEqual(
    [0, 0.5, 1.4, 1.5, 61.5, 100].map((seconds) => countUntil(events, seconds)),
    [0, 1, 1, 2, 4, 4],
  );
});

test("parses a recording with huge lines, invalid JSON and extreme times within seconds", async () => {
  const started_ms = performance.now();
  const junk = `${"[".repeat(30_000_000)}\n${"x\n".repeat(1_000_000)}`;
  const lines = [
    '{"width":1000000000,"height":1000000000}',
    '[1,"o","a"]',
    junk,
    '[1000000000,"o","b"]',
    '[1e308,"o","c"]',
    '[-5,"o","d"]',
  ];
  const { cols, rows, events } = await parseCast(lines.join("\n"));
  assert.deepEqual([cols, rows], [80, 24]);
  assert.deepEqual(
    events.map(({ at, text }) => [at, text]),
    [
      [1, "a"],
      [86_401, "b"],
      [172_801, "c"],
      [172_801, "d"],
    ],
  );
  assert.ok(performance.now() - started_ms < 20_000);
});

test("parses terminal sizes and formats playback times", () => {
  assert.deepEqual(castSize("120x40"), { cols: 120, rows: 40 });
  for (const wrong of ["", "0x40", "120x", "1000000000x9", "12x3;"]) assert.equal(castSize(wrong), undefined);
  assert.deepEqual(
    [0, 59.9, 60, 3_725].map((seconds) => clockText(seconds, 3_725)),
    ["0:00", "0:59", "1:00", "1:02:05"],
  );
  assert.deepEqual(
    [0, 0.38, 9.99].map((seconds) => clockText(seconds, 9.99)),
    ["0:00.0", "0:00.3", "0:09.9"],
  );
});
