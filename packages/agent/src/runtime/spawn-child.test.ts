import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { pino } from "pino";
import { outputOf } from "../ros/ros2-cli/ros2-cli.ts";
import { runFfmpeg } from "../streams/camera/ffmpeg.ts";
import { PipedTerminal } from "../streams/shell/piped.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { unstartables } from "../testing/unstartable.ts";
import { runCommand, spawnChild } from "./spawn-child.ts";
import { DetachedHost } from "./hosts/detached-host.ts";
import { resourceLimits } from "./manifest.ts";
import { statePaths } from "./paths.ts";
import { Workload } from "./workload.ts";
import { TIMING } from "./limits.ts";

const LIMIT = { timeout: 120_000 };
const env = { PATH: process.env["PATH"] ?? "" };
const clock = systemClock;

test("reports every error of starting a child process as an event, even errors that Node throws", LIMIT, async (t) => {
  const { all, close } = unstartables(temporaryDirectory(t));
  t.after(close);
  for (const { code, program, args = [], cwd = "/" } of all) {
    const child = spawnChild(program, args, { cwd, env, stdio: ["pipe", "pipe", "pipe"] });
    let error: NodeJS.ErrnoException | undefined;
    child.once("error", (one) => (error = one));
    await new Promise((resolve) => child.once("close", resolve));
    assert.deepEqual([error?.code, child.pid, child.kill()], [code, undefined, false], program);
  }
});

test("a health, reload or safe-to-update command that cannot start fails with the reason", LIMIT, async (t) => {
  const { all, close } = unstartables(temporaryDirectory(t));
  t.after(close);
  for (const { code, program, args = [], cwd = "/" } of all) {
    const { ok, message } = await runCommand({ argv: [program, ...args], cwd, env, timeout_ms: 60_000, clock });
    assert.equal(ok, false);
    assert.match(message, new RegExp(`^could not be started \\(spawn (.|\n)*${code}\\)$`));
  }
});

test("retries a workload that cannot be started", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const { all, close } = unstartables(directory);
  t.after(close);
  for (const { code, program, args = [], cwd = "/" } of all) {
    const workload = new Workload({
      app: "main",
      argv: [program, ...args],
      directory: cwd,
      env,
      stop_timeout_seconds: 1,
      release_id: "rel_1",
      limits: resourceLimits(undefined),
      host: new DetachedHost({ paths: statePaths(directory), clock, log: pino({ enabled: false }), sink: { write: () => {} } }),
      clock,
      timing: { ...TIMING, restart_first_ms: 1, restart_last_ms: 1 },
      log: pino({ enabled: false }),
      logs: { write: () => {} },
    });
    await workload.start();
    while (workload.restarts < 2) await new Promise((resolve) => setImmediate(resolve));
    await workload.stop();
    // The program is started by a shell. The shell reports errors of the system call with status 126 or 127, and prints their text to the
    // program's log.
    assert.match(workload.last_exit ?? "", /^could not be started: |^exited with 12[67]$/, code);
  }
});

test("a camera, ROS command or shell that cannot be started fails without an uncaught error", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const { all, close } = unstartables(directory);
  t.after(close);
  for (const { program, args = [], cwd = "/" } of all) {
    try {
      const shell = new PipedTerminal({ argv: [program, ...args], cwd, env, clock });
      assert.deepEqual(await shell.exited, { code: 126 });
      await shell.close();
    } catch (error) {
      assert.match(String(error), /could not be started/);
    }
    if (cwd === "/") assert.equal(await outputOf({ program, environment: env, clock }, args, 60_000), undefined);
  }
  const picture = { fps: 1, width: undefined, height: undefined, quality: undefined, scale: 1 };
  const run = { picture, signal: new AbortController().signal, frame: () => assert.fail(), refused: () => assert.fail() };
  const camera = await runFfmpeg(["-i", "x".repeat(256 * 1024)], run, { clock, environment: env });
  assert.deepEqual(camera, { failed: true, reason: "ffmpeg cannot be run (E2BIG)" });
});

test("a ROS command returns at its timeout or abort even if a child keeps its pipe open", LIMIT, async () => {
  const command = { program: "/bin/sh", environment: env, clock };
  const args = ["-c", "setsid sleep 15 & sleep 15"];
  const started_at = clock.monotonic();
  const abort = new AbortController();
  const aborted = outputOf(command, args, 60_000, abort.signal);
  assert.equal(await outputOf(command, args, 100), undefined);
  abort.abort();
  assert.equal(await aborted, undefined);
  assert.ok(clock.monotonic() - started_at < 10_000);
});

test("a command that is aborted before its start ends immediately", { timeout: 120_000 }, async () => {
  const signal = AbortSignal.abort();
  const { ok, message } = await runCommand({
    argv: ["/bin/sleep", "600"],
    cwd: "/",
    env: {},
    timeout_ms: 600_000,
    clock: systemClock,
    signal,
  });
  assert.deepEqual([ok, message], [false, "ended by SIGKILL"]);
});
