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
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-failpoint-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs a process that passes the failpoints `a`, `b` (a torn write), `a` and `c`. Returns its exit and its output. */
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
          // After the last newline there is nothing, or an incomplete line.
          .slice(0, -1)
          .map((line) => {
            const { pid, ...reached } = JSON.parse(line) as Reached;
            assert.equal(pid, child.pid);
            return reached;
          })
      : [];
  return { child, torn, lines, ended: once(child, "exit") as Promise<[number | null, string | null]> };
}

test("kills a process with SIGKILL only at the armed failpoint, and logs the failpoint", LIMIT, async (t) => {
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

test("truncates a write only if its failpoint kills the process", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "b");
  assert.deepEqual(await run.ended, [null, "SIGKILL"]);
  assert.equal(readFileSync(run.torn, "utf8"), "half");
});

test("arming failpoints with `list` logs every reached failpoint once and kills nothing", LIMIT, async (t) => {
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

test("an unreached failpoint has no effect and logs nothing", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "a#3");
  assert.deepEqual(await run.ended, [0, null]);
  assert.deepEqual(run.lines(), []);
});

test("a failpoint with !hold stops the process until SIGCONT", LIMIT, async (t) => {
  const run = pass(directoryOf(t), "b!hold");
  await until("its line", () => run.lines().length > 0);
  assert.deepEqual(run.lines(), [{ point: "b", nth: 1, within: "journal", action: "held" }]);
  // The process writes its log line before it stops. Wait for the stop, because SIGCONT has an effect only on a stopped process.
  const state = (): string | undefined => /\) (\w)/.exec(readFileSync(`/proc/${run.child.pid}/stat`, "utf8"))?.[1];
  await until("it to be stopped", () => state() === "T");
  // The main thread stops before the other threads. A SIGCONT in between is lost, so it is sent repeatedly.
  const nudge = setInterval(() => run.child.kill("SIGCONT"), 20);
  assert.deepEqual(await run.ended.finally(() => clearInterval(nudge)), [0, null]);
});

test("rejects an invalid failpoint, since a misspelled failpoint would never fire", () => {
  for (const spec of ["a b", "a#0", "a#x", "#1", "a!stay"])
    assert.throws(() => armFailpoints({ spec, log_file: "/dev/null" }), /a failpoint is/, spec);
  assert.equal(failpointsArmed(), false);
  failpoint("anything", "step");
});
