// Separate process: it uses up its file descriptors.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { outputOf } from "../ros/ros2-cli/ros2-cli.ts";
import { runFfmpeg } from "../streams/camera/ffmpeg.ts";
import { PipedTerminal } from "../streams/shell/piped.ts";
import { runCommand } from "./spawn-child.ts";

const LIMIT = { timeout: 120_000 };
const DESCRIPTORS = 256;
const env = { PATH: process.env["PATH"] ?? "" };

/** Runs `begin` while this process has no file descriptors left. */
function withoutDescriptors<T>(begin: () => T): T {
  const held: number[] = [];
  try {
    for (;;) held.push(fs.openSync("/dev/null", "r"));
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "EMFILE");
  }
  try {
    return begin();
  } finally {
    for (const descriptor of held) fs.closeSync(descriptor);
  }
}

test("starting a program without free file descriptors fails without an uncaught error", LIMIT, async () => {
  execFileSync("prlimit", [`--pid=${process.pid}`, `--nofile=${DESCRIPTORS}:`]);
  const command = withoutDescriptors(() => runCommand({ argv: ["true"], cwd: "/", env, timeout_ms: 60_000, clock: systemClock }));
  assert.deepEqual(await command, { ok: false, message: "could not be started (spawn true EMFILE)" });
  const ros2 = { program: "/bin/true", environment: env, clock: systemClock };
  assert.equal(await withoutDescriptors(() => outputOf(ros2, [], 60_000)), undefined);
  const camera = withoutDescriptors(() => {
    const picture = { fps: 1, width: undefined, height: undefined, quality: undefined, scale: 1 };
    const run = { picture, signal: new AbortController().signal, frame: () => assert.fail(), refused: () => assert.fail() };
    return runFfmpeg(["-i", "x"], run, { clock: systemClock, environment: env });
  });
  assert.deepEqual(await camera, { failed: true, reason: "ffmpeg cannot be run (EMFILE)" });
  assert.throws(
    () => withoutDescriptors(() => new PipedTerminal({ argv: ["true"], cwd: "/", env, clock: systemClock })),
    /no descriptors left/,
  );
  // Node may report the last error asynchronously.
  await new Promise((resolve) => setImmediate(resolve));
});
