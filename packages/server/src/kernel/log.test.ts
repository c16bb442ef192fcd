import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { pino } from "pino";
import { createLog, foldRepeats } from "./log.ts";

type Line = Record<string, unknown>;
const collect = (): { lines: Line[]; stream: { write: (line: string) => void } } => {
  const lines: Line[] = [];
  return { lines, stream: { write: (line) => void lines.push(JSON.parse(line) as Line) } };
};

function foldedLog() {
  const { lines, stream } = collect();
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const { hooks, flush } = foldRepeats(clock);
  const log = pino({ level: "debug", base: null, timestamp: false, hooks, formatters: { level: (level) => ({ level }) } }, stream);
  return { lines, log, clock, flush };
}

test("writes log levels as words", () => {
  const { lines, stream } = collect();
  const log = createLog({ level: "trace", stream });
  for (const level of ["trace", "debug", "info", "warn", "error", "fatal"] as const) log[level]({}, `a line of ${level}`);
  assert.deepEqual(
    lines.map(({ level }) => level),
    ["trace", "debug", "info", "warn", "error", "fatal"],
  );
});

test("writes the first of 2,500 equal messages, and the number of repeats after a second", async () => {
  const { lines, log, clock } = foldedLog();
  for (let robot = 0; robot < 2_500; robot += 1) log.info({ robot_id: `rob_${robot}` }, "robot came back");
  assert.deepEqual(lines, [{ level: "info", robot_id: "rob_0", msg: "robot came back" }]);
  await clock.advance({ seconds: 1 });
  assert.deepEqual(lines.slice(1), [{ level: "info", repeated: 2_499, msg: "robot came back" }]);
  log.info({ robot_id: "rob_x" }, "robot came back");
  await clock.advance({ seconds: 1 });
  assert.deepEqual(lines.slice(2), [{ level: "info", repeated: 1, msg: "robot came back" }]);
  await clock.advance({ seconds: 1 });
  log.info({ robot_id: "rob_y" }, "robot came back");
  assert.deepEqual(lines.slice(3), [{ level: "info", robot_id: "rob_y", msg: "robot came back" }]);
});

test("writes the stack of equal errors once, and of different errors separately", async () => {
  const { lines, log, clock } = foldedLog();
  const lost = (): Error => Object.assign(new Error("terminated"), { code: "57P01" });
  for (let query = 0; query < 100; query += 1) log.error({ err: lost() }, "request failed");
  log.error({ err: new TypeError("a bug") }, "request failed");
  log.warn({ err: lost() }, "request failed");
  await clock.advance({ seconds: 1 });
  const stacks = lines.filter(({ err }) => typeof (err as { stack?: unknown } | undefined)?.stack === "string");
  assert.deepEqual(
    stacks.map(({ level, err }) => [level, (err as { message: string }).message]),
    [
      ["error", "terminated"],
      ["error", "a bug"],
      ["warn", "terminated"],
    ],
  );
  assert.deepEqual(lines.slice(3), [{ level: "error", repeated: 99, msg: "request failed" }]);
});

test("does not fold repeated debug lines", () => {
  const { lines, log } = foldedLog();
  for (let index = 0; index < 10; index += 1) log.debug({ index }, "a detail");
  assert.equal(lines.length, 10);
});

test("writes the number of folded lines when the process exits", () => {
  const { lines, log, flush } = foldedLog();
  for (let index = 0; index < 3; index += 1) log.warn({ index }, "a warning");
  flush();
  assert.deepEqual(lines.slice(1), [{ level: "warn", repeated: 2, msg: "a warning" }]);
});

test("folds repeated lines in the log of a server", () => {
  const { lines, stream } = collect();
  const log = createLog({ level: "info", stream });
  for (let index = 0; index < 3; index += 1) log.info({ index }, "a line");
  assert.equal(lines.length, 1);
});
