import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { temporaryDirectory } from "./testing/agent-rig.ts";
import { startLinkPeer } from "./testing/link-peer.ts";

const LIMIT = { timeout: 120_000 };

interface Run {
  child: ChildProcess;
  stderr: () => string;
  code: Promise<number | null>;
}

const rfAgent = (t: TestContext, ...args: string[]): Run => startWith(t, {}, args);

/** Starts the agent with more environment variables. */
function startWith(t: TestContext, env: Record<string, string>, args: readonly string[]): Run {
  const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let text = "";
  child.stderr.on("data", (chunk) => (text += String(chunk)));
  // At `close`, unlike at `exit`, all output has been read.
  const code = once(child, "close").then(([exit_code]) => exit_code as number | null);
  t.after(() => child.kill("SIGKILL"));
  return { child, stderr: () => text, code };
}

test("the agent restarts as the same robot after kill -9 and exits 0 on SIGTERM", LIMIT, async (t) => {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  const args = [
    "run",
    "--server",
    peer.url,
    "--enroll-key",
    "rf_enroll_x",
    "--state",
    temporaryDirectory(t),
    "--name",
    "arm",
    "--label",
    "line=3",
  ];
  const first = rfAgent(t, ...args);
  await until("the link", () => peer.connected);
  const second = rfAgent(t, ...args);
  assert.equal(await second.code, 6);
  assert.match(second.stderr(), /in use by another agent/);
  first.child.kill("SIGKILL");
  await first.code;
  const third = rfAgent(t, ...args);
  await until("the second link", () => peer.hellos.length === 2 && peer.connected);
  assert.equal(peer.hellos[1]!.robot_id, peer.hellos[0]!.robot_id);
  assert.equal(peer.enrollments.length, 1);
  third.child.kill("SIGTERM");
  assert.equal(await third.code, 0, third.stderr());
  await until("the goodbye", () => peer.close_code === 1001);
});

/** Returns the variables that the launcher sets. This process is the launcher. */
function launched(t: TestContext): Record<string, string> {
  const root = temporaryDirectory(t);
  writeFileSync(join(root, "heartbeat"), `${"0".repeat(12)}\n`);
  const launcher = { ROAMFLEET_AGENT_LAUNCHED: "0.1.0", ROAMFLEET_LAUNCHER_PID: String(process.pid) };
  return { ...launcher, ROAMFLEET_AGENT_ROOT: root, ROAMFLEET_AGENT_RUN: root };
}

const STARTED_BY = { "a person": () => ({}), "the launcher": launched };

for (const [starter, variables] of Object.entries(STARTED_BY)) {
  test(`an agent started by ${starter} exits 4 with the server's reason if its enrollment key is refused`, LIMIT, async (t) => {
    const peer = await startLinkPeer();
    t.after(() => peer.stop());
    peer.behavior.refuse_http = { status: 401, message: "no such enrollment key" };
    const args = ["run", "--server", peer.url, "--enroll-key", "rf_enroll_x", "--state", temporaryDirectory(t)];
    const run = startWith(t, variables(t), args);
    assert.equal(await run.code, 4);
    assert.match(run.stderr(), /no such enrollment key/);
    assert.doesNotMatch(run.stderr(), /\n {4}at |rf_enroll_x/);
  });

  test(`an agent started by ${starter} exits 0 on SIGTERM while it waits to enroll`, LIMIT, async (t) => {
    const args = ["run", "--server", "http://127.0.0.1:9", "--enroll-key", "rf_enroll_x", "--state", temporaryDirectory(t)];
    const run = startWith(t, variables(t), args);
    await until("the first try", () => run.stderr().includes("could not enroll"));
    run.child.kill("SIGTERM");
    assert.equal(await run.code, 0);
  });
}

test("the agent exits 2 and names --enroll-key if it is neither enrolled nor has a key", LIMIT, async (t) => {
  const run = rfAgent(t, "run", "--server", "http://127.0.0.1:9", "--state", temporaryDirectory(t));
  assert.equal(await run.code, 2);
  assert.match(run.stderr(), /--enroll-key/);
});

test("the agent logs an uncaught error and keeps its link", LIMIT, async (t) => {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  const raise = `process.on("SIGUSR2", () => {
    setImmediate(() => { throw new Error("thrown in a callback"); });
    void Promise.reject(new Error("rejected without a handler"));
    new (require("node:events").EventEmitter)().emit("error", new Error("emitted without a listener"));
  });`;
  const faults = join(temporaryDirectory(t), "faults.cjs");
  writeFileSync(faults, raise);
  const state = temporaryDirectory(t);
  const child = spawn(
    process.execPath,
    [
      "--require",
      faults,
      join(import.meta.dirname, "main.ts"),
      "run",
      "--server",
      peer.url,
      "--enroll-key",
      "rf_enroll_x",
      "--state",
      state,
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  t.after(() => child.kill("SIGKILL"));
  let text = "";
  child.stderr.on("data", (chunk) => (text += String(chunk)));
  await until("the link", () => peer.connected);
  child.kill("SIGUSR2");
  for (const error of ["thrown in a callback", "rejected without a handler", "emitted without a listener"])
    await until(error, () => text.includes(error));
  assert.match(text, /unexpected error: the agent continues/);
  assert.equal(peer.hellos.length, 1);
  const ended = once(child, "close");
  child.kill("SIGTERM");
  assert.equal((await ended)[0], 0, text);
});

test("an uncaught error during startup exits 1 and releases the state lock", LIMIT, async (t) => {
  const faults = join(temporaryDirectory(t), "faults.cjs");
  writeFileSync(faults, `process.on("SIGUSR2", () => setImmediate(() => { throw new Error("thrown in a callback"); }));`);
  const state = temporaryDirectory(t);
  const args = [
    join(import.meta.dirname, "main.ts"),
    "run",
    "--server",
    "http://127.0.0.1:9",
    "--enroll-key",
    "rf_enroll_x",
    "--state",
    state,
  ];
  for (const attempt of ["first", "second"]) {
    const child = spawn(process.execPath, ["--require", faults, ...args], { stdio: ["ignore", "ignore", "pipe"] });
    t.after(() => child.kill("SIGKILL"));
    let text = "";
    child.stderr.on("data", (chunk) => (text += String(chunk)));
    const ended = once(child, "close");
    await until("the wait for the server", () => text.includes("could not enroll"));
    child.kill("SIGUSR2");
    assert.equal((await ended)[0], 1, attempt);
    assert.match(text, /rf-agent: unexpected error: thrown in a callback/);
  }
});

const ROOT = process.getuid?.() === 0 ? {} : { skip: "only root mounts a small disk" };

test("an agent with a full disk starts and connects as the same robot", { ...LIMIT, ...ROOT }, async (t) => {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  const state = join(temporaryDirectory(t), "disk");
  mkdirSync(state);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "none", state]);
  const runs: Run[] = [];
  const run = (): Run => {
    const one = rfAgent(t, "run", "--server", peer.url, "--enroll-key", "rf_enroll_x", "--state", state);
    runs.push(one);
    return one;
  };
  try {
    run();
    await until("the link", () => peer.connected);
    runs[0]!.child.kill("SIGKILL");
    await runs[0]!.code;
    assert.throws(() => writeFileSync(join(state, "ballast"), Buffer.alloc(8_000_000)), /ENOSPC/);
    run();
    await until("the second link", () => peer.hellos.length === 2 && peer.connected);
    assert.equal(peer.hellos[1]!.robot_id, peer.hellos[0]!.robot_id);
  } finally {
    for (const { child, code } of runs) {
      child.kill("SIGKILL");
      await code;
    }
    execFileSync("umount", ["-l", state]);
  }
});
