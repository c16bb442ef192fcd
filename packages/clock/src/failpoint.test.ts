import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { armFailpoints, failpoint, failpointsArmed, type Reached } from "./failpoint.ts";
import { until } from "./testing/until.ts";

const LIMIT = { timeout: 120_000 };
const MODULE = JSON.stringify(path.join(import.meta.dirname, "failpoint.ts"));

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "robofleet-failpoint-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs a process that passes `a`, `b` (torn), `a`, `c`; answers how it ended and what it left. */
function pass(directory: string, spec: string) {
  const log_file = path.join(directory, "points.log");
  const torn = path.join(directory, "torn");
  const script = `
    import { writeFileSync } from "node:fs";
    import { armFailpoints, failpoint, tornFailpoint } from ${MODULE};
    armFailpoints(${JSON.stringify({ spec, log_file })});
    failpoint("a", "step");
    tornFailpoint("b", "journal", () => writeFileSync(${JSON.stringify(torn)}, "half"));
    failpoint("a", "step");
    failpoint("c", "transaction");
    console.log("through");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = (): Omit<Reached, "pid">[] =>
    existsSync(log_file)
      ? readFileSync(log_file, "utf8")
          .split("\n")
          // Behind the last line end is nothing, or a line that is still being written.
          .slice(0, -1)
          .map((line) => {
            const { pid, ...reached } = JSON.parse(line) as Reached;
            assert.equal(pid, child.pid);
            return reached;
          })
      : [];
  return { child, torn, lines, ended: once(child, "exit") as Promise<[number | null, string | null]> };
}

test("a process dies at its failpoint by SIGKILL, and only there; the log says where", LIMIT, async (t) => {
  for (const [spec, point, nth] of [
    ["a", "a", 1],
    ["a#2", "a", 2],
    ["c", "c", 1],
  ] as const) {
    const run = pass(directoryOf(t), spec);
    assert.deepEqual(await run.ended, [null, "SIGKILL"]);
    assert.deepEqual(run.lines(), [{ point, nth, within: point === "c" ? "transaction" : "step", action: "killed" }]);
    assert.equal(existsSync(run.torn), false);
  }
});

test("a torn write is torn only where the process dies of it", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "b");
  assert.deepEqual(await run.ended, [null, "SIGKILL"]);
  assert.equal(readFileSync(run.torn, "utf8"), "half");
});

test("list names every point once and disturbs nothing", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "list");
  assert.deepEqual(await run.ended, [0, null]);
  assert.deepEqual(
    run.lines().map(({ point, action }) => [point, action]),
    [
      ["a", "listed"],
      ["b", "listed"],
      ["c", "listed"],
    ],
  );
});

test("a point that is not reached ends nothing and leaves no line", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "a#3");
  assert.deepEqual(await run.ended, [0, null]);
  assert.deepEqual(run.lines(), []);
});

test("a held process waits until it is told to go on", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "b!hold");
  await until("its line", () => run.lines().length > 0);
  assert.deepEqual(run.lines(), [{ point: "b", nth: 1, within: "journal", action: "held" }]);
  // The line is written before the stop: only a process that is stopped can be told to go on.
  const state = (): string | undefined => /\) (\w)/.exec(readFileSync(`/proc/${run.child.pid}/stat`, "utf8"))?.[1];
  await until("it to be stopped", () => state() === "T");
  // Its main thread stops before the others do; what comes in between is lost.
  const nudge = setInterval(() => run.child.kill("SIGCONT"), 20);
  assert.deepEqual(await run.ended.finally(() => clearInterval(nudge)), [0, null]);
});

test("what is no failpoint is refused: a misspelt one would prove nothing", () => {
  for (const spec of ["a b", "a#0", "a#x", "#1", "a!stay"])
    assert.throws(() => armFailpoints({ spec, log_file: "/dev/null" }), /a failpoint is/, spec);
  assert.equal(failpointsArmed(), false);
  failpoint("anything", "step");
});
