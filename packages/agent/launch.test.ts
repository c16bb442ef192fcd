import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { temporaryDirectory } from "./src/testing/agent-rig.ts";

const LAUNCH = path.join(import.meta.dirname, "launch");
const LIMIT = { timeout: 120_000 };
/** Duration of a tick here; the launcher's default is 5 s. Its timeout of 60 s is 12 ticks. */
const TICK_SECONDS = "0.1";

const START = 'echo "start $ROAMFLEET_AGENT_LAUNCHED $$ $*" >>"$ROAMFLEET_AGENT_ROOT/starts"; trap "exit 0" TERM; i=0';
const BEAT = `while :; do i=$((i+1)); printf '%012d\\n' $i >"$ROAMFLEET_AGENT_RUN/heartbeat"; sleep 0.02; done`;
const beat = (then = ""): string => `${START}; ${then} ${BEAT}`;
const REPORT = 'touch "$ROAMFLEET_AGENT_RUN/reported";';
const CONFIRM = `${REPORT} ln -s "$ROAMFLEET_AGENT_LAUNCHED" "$ROAMFLEET_AGENT_ROOT/c"; mv -T "$ROAMFLEET_AGENT_ROOT/c" "$ROAMFLEET_AGENT_ROOT/current";`;
const WELL = beat();

/** A directory of agent versions, which are shell scripts, and launchers that start these. */
class Rig {
  readonly root: string;
  readonly run: string;
  #output = "";
  readonly #launchers: ChildProcess[] = [];

  constructor(t: TestContext) {
    this.root = fs.realpathSync(temporaryDirectory(t));
    this.run = path.join(this.root, "run");
    t.after(async () => {
      for (const launcher of this.#launchers) await this.end(launcher, "SIGTERM");
      for (const { pid } of this.starts()) if (this.#lives(pid)) process.kill(pid, "SIGKILL");
    });
  }

  version(version: string, script: string): void {
    const directory = path.join(this.root, version);
    fs.mkdirSync(path.join(directory, "bin"), { recursive: true });
    fs.writeFileSync(path.join(directory, "bin/node"), script.startsWith("\x7f") ? script : `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    fs.writeFileSync(path.join(directory, "rf-agent.mjs"), "//\n");
  }

  put(name: string, text: string): void {
    fs.writeFileSync(path.join(this.root, name), text);
  }

  link(name: string, version: string): void {
    fs.rmSync(path.join(this.root, name), { force: true });
    fs.symlinkSync(version, path.join(this.root, name));
  }

  target = (name: string): string => fs.readlinkSync(path.join(this.root, name));

  launch(...args: string[]): ChildProcess {
    const env = {
      PATH: process.env["PATH"],
      ROAMFLEET_AGENT_ROOT: this.root,
      ROAMFLEET_AGENT_RUN: this.run,
      ROAMFLEET_AGENT_TICK_SECONDS: TICK_SECONDS,
    };
    const launcher = spawn(LAUNCH, args, { env, stdio: ["ignore", "ignore", "pipe"] });
    launcher.stderr.setEncoding("utf8").on("data", (text: string) => (this.#output += text));
    this.#launchers.push(launcher);
    return launcher;
  }

  async end(launcher: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
    if (launcher.exitCode !== null || launcher.signalCode !== null) return launcher.exitCode;
    launcher.kill(signal);
    await once(launcher, "exit");
    return launcher.exitCode;
  }

  starts(): { version: string; pid: number; args: string }[] {
    const file = path.join(this.root, "starts");
    const lines = fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
    return lines.map((line) => {
      const [, version = "", pid = "", ...args] = line.split(" ");
      return { version, pid: Number(pid), args: args.join(" ") };
    });
  }

  #lives(pid: number): boolean {
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(this.root);
    } catch {
      return false;
    }
  }

  /** Versions of the agents that run now. */
  running = (): string[] =>
    this.starts()
      .filter(({ pid }) => this.#lives(pid))
      .map(({ version }) => version);

  /** Waits until exactly one agent runs, of this version and started after `count` others. */
  async runs(version: string, count = 0): Promise<void> {
    await until(
      `version ${version} to run alone`,
      () => this.starts().length > count && this.starts().at(-1)?.version === version && this.running().join() === version,
      { detail: () => this.#output },
    );
  }

  /** Names of the files of requested and unfinished trials. */
  trials = (): string[] => fs.readdirSync(this.root).filter((name) => name === "next" || name.startsWith("trial"));

  failed = (): string[] => fs.readFileSync(path.join(this.root, "failed"), "utf8").split("\n").slice(0, 3);
}

/** Creates a robot that runs version 1. `second` is the script of version 2; absent: version 2 is not installed. */
function rigOf(t: TestContext, second?: string): Rig {
  const rig = new Rig(t);
  rig.version("1", WELL);
  rig.link("current", "1");
  if (second !== undefined) rig.version("2", second);
  return rig;
}

test("runs the current version with the given flags, and exits with the agent's exit status", LIMIT, async (t) => {
  const rig = rigOf(t);
  const launcher = rig.launch("--label", "a=b c");
  await rig.runs("1");
  assert.equal(rig.starts()[0]?.args, `--optimize-for-size ${rig.root}/1/rf-agent.mjs run --label a=b c`);
  assert.equal(await rig.end(launcher, "SIGTERM"), 0);
  assert.deepEqual(rig.running(), []);
  rig.version("1", "exit 4");
  const [code] = await once(rig.launch(), "exit");
  assert.equal(code, 4);
});

test("starts a version with the flags of Node that it names", LIMIT, async (t) => {
  const rig = rigOf(t);
  fs.writeFileSync(path.join(rig.root, "1/node-flags"), "--first --second=2\n");
  rig.launch("--name", "cart");
  await rig.runs("1");
  assert.equal(rig.starts()[0]?.args, `--first --second=2 ${rig.root}/1/rf-agent.mjs run --name cart`);
});

test("starts a version whose node-flags file is truncated", LIMIT, async (t) => {
  const rig = rigOf(t);
  fs.writeFileSync(path.join(rig.root, "1/node-flags"), "--first --sec");
  rig.launch();
  await rig.runs("1");
  assert.equal(rig.starts()[0]?.args, `--optimize-for-size ${rig.root}/1/rf-agent.mjs run`);
});

test("a requested agent version becomes current when the agent of that version confirms it", LIMIT, async (t) => {
  const rig = rigOf(t, beat(CONFIRM));
  rig.put("next", "2\n");
  rig.launch();
  await rig.runs("2");
  await until("the end of the trial", () => rig.trials().length === 0);
  assert.equal(rig.target("current"), "2");
});

test("a running agent that requests another version and ends is replaced by that version", LIMIT, async (t) => {
  const rig = rigOf(t, beat(CONFIRM));
  rig.version("1", `${START}; echo 2 >"$ROAMFLEET_AGENT_ROOT/next"; exit 75`);
  rig.launch();
  await rig.runs("2");
  assert.deepEqual(
    rig.starts().map(({ version }) => version),
    ["1", "2"],
  );
});

for (const [what, script, reason, message] of [
  ["ends at its start", `${START}; exit 3`, "crash_loop", /ended with exit status 3 before it was confirmed/],
  ["reports and then ends", `${START}; ${REPORT} sleep 0.3; exit 1`, "crash_loop", /ended with exit status 1/],
  ["does not report", WELL, "health_check_failed", /did not report to the server within 60 s/],
  ["hangs", `${START}; trap "" TERM; while :; do sleep 0.1; done`, "health_check_failed", /did not re/],
  ["reports and then hangs", `${START}; ${REPORT} while :; do sleep 0.1; done`, "health_check_failed", /did not respond for 60 s/],
  ["has a Node for another processor", "\x7fELF\x02\x01\x01\0\0", "", /exit status/],
] as const)
  test(`a new version that ${what} is replaced by the old version, and the reason is recorded`, LIMIT, async (t) => {
    const rig = rigOf(t, script);
    rig.put("next", "2\n");
    rig.launch();
    await rig.runs("1");
    const [version, found, text] = rig.failed();
    assert.equal(version, "2");
    if (reason !== "") assert.equal(found, reason);
    assert.match(text ?? "", message);
    assert.deepEqual([rig.trials(), rig.target("current")], [[], "1"]);
  });

test("an incomplete version is not started", LIMIT, async (t) => {
  for (const name of ["2", "../2", ".", ""]) {
    const rig = rigOf(t);
    rig.put("next", `${name}\n`);
    rig.launch();
    await rig.runs("1");
    assert.deepEqual(rig.failed().slice(0, 2), [name, "rejected_by_robot"]);
  }
});

test("a confirmed agent that hangs is killed and started again", LIMIT, async (t) => {
  const rig = rigOf(t);
  rig.version(
    "1",
    `${START}; if [ "$(grep -c . "$ROAMFLEET_AGENT_ROOT/starts")" -gt 1 ]; then ${BEAT}; fi; trap "" TERM; while :; do sleep 0.1; done`,
  );
  rig.launch();
  await rig.runs("1", 1);
});

test("an agent that requests another version but does not end is killed", LIMIT, async (t) => {
  const rig = rigOf(t, beat(CONFIRM));
  rig.version("1", beat('trap "" TERM; echo 2 >"$ROAMFLEET_AGENT_ROOT/next";'));
  rig.launch();
  await rig.runs("2");
});

test("SIGTERM during a trial ends the agent; the next start repeats the trial", LIMIT, async (t) => {
  const rig = rigOf(t, beat(REPORT));
  rig.put("next", "2\n");
  const launcher = rig.launch();
  await rig.runs("2");
  assert.equal(await rig.end(launcher, "SIGTERM"), 0);
  assert.deepEqual(rig.trials(), ["trial.1"]);
  rig.version("2", beat(CONFIRM));
  rig.launch();
  await until("the end of the trial", () => rig.trials().length === 0);
  await rig.runs("2", 1);
});

test("the next launcher ends the agent of a killed launcher; the third interruption ends the trial", LIMIT, async (t) => {
  const rig = rigOf(t, beat(REPORT));
  rig.put("next", "2\n");
  for (let count = 0; count < 3; count += 1) {
    const launcher = rig.launch();
    await rig.runs("2", count);
    await rig.end(launcher, "SIGKILL");
  }
  rig.launch();
  await rig.runs("1", 3);
  assert.deepEqual(rig.failed().slice(0, 2), ["2", "crash_loop"]);
  assert.deepEqual(rig.trials(), []);
});

test("a second launcher of the same directory ends, and the agent of the first launcher continues", LIMIT, async (t) => {
  const rig = rigOf(t);
  rig.launch();
  await rig.runs("1");
  const [code] = await once(rig.launch(), "exit");
  assert.equal(code, 6);
  assert.deepEqual(rig.running(), ["1"]);
});

/** The files after a power cut at each step, and the version that runs then. */
const CUTS: [what: string, files: Record<string, string>, current: string, runs: string][] = [
  ["before the request", { "next.tmp": "2\n" }, "1", "1"],
  ["after the request", { next: "2\n" }, "1", "2"],
  ["in the trial", { "trial.1": "2\n" }, "1", "2"],
  ["in the trial of a lost request", { "trial.1": "" }, "1", "1"],
  ["while the trial fails", { "trial.1": "2\n", "failed.new": "2\ncrash" }, "1", "2"],
  ["when too many trials were interrupted", { "trial.4": "2\n" }, "1", "1"],
  ["after the confirmation", { "trial.2": "2\n" }, "2", "2"],
  ["in a new request during a trial", { "trial.2": "1\n", next: "2\n" }, "1", "2"],
  ["while current was replaced", { "current.tmp": "" }, "1", "1"],
];
for (const [what, files, current, runs] of CUTS)
  test(`after a power cut ${what}, one agent runs`, LIMIT, async (t) => {
    const rig = rigOf(t, beat(CONFIRM));
    rig.link("current", current);
    for (const [name, text] of Object.entries(files)) rig.put(name, text);
    rig.launch();
    await rig.runs(runs);
    await until("the end of the trial", () => rig.trials().length === 0);
    await rig.runs(runs);
  });

test("a damaged current version is replaced by the previous or the newest complete one", LIMIT, async (t) => {
  const rig = rigOf(t, WELL);
  rig.version("10", WELL);
  rig.link("current", "3");
  const first = rig.launch();
  await rig.runs("10");
  await rig.end(first, "SIGTERM");
  rig.link("previous", "2");
  const second = rig.launch();
  await rig.runs("2", 1);
  await rig.end(second, "SIGTERM");
  for (const version of ["1", "2", "10"]) fs.rmSync(path.join(rig.root, version), { recursive: true });
  const [code] = await once(rig.launch(), "exit");
  assert.equal(code, 1);
});

test("a current version whose program cannot run is replaced by the previous one until the next start", LIMIT, async (t) => {
  const rig = rigOf(t, WELL);
  for (const [count, script] of ["exit 127", "exit 126"].entries()) {
    rig.version("1", script);
    rig.link("previous", "2");
    const launcher = rig.launch();
    await rig.runs("2", count);
    assert.equal(rig.target("current"), "1");
    await rig.end(launcher, "SIGTERM");
  }
  rig.version("2", "exit 127");
  const [code] = await once(rig.launch(), "exit");
  assert.equal(code, 1);
});

test("a version without content is not started", LIMIT, async (t) => {
  for (const name of ["bin/node", "rf-agent.mjs"]) {
    const rig = rigOf(t, beat(CONFIRM));
    fs.truncateSync(path.join(rig.root, "2", name));
    rig.put("next", "2\n");
    rig.launch();
    await rig.runs("1");
    assert.deepEqual(rig.failed().slice(0, 2), ["2", "rejected_by_robot"]);
  }
});

test("a trial in which another agent uses the state directory is repeated", LIMIT, async (t) => {
  const rig = rigOf(t, `${START}; exit 6`);
  rig.put("next", "2\n");
  const [code] = await once(rig.launch(), "exit");
  assert.equal(code, 6);
  assert.deepEqual(rig.trials(), ["trial.1"]);
  rig.version("2", beat(CONFIRM));
  rig.launch();
  await rig.runs("2", 1);
});

test("--help prints the flags of the agent, and changes nothing", LIMIT, async (t) => {
  const rig = rigOf(t);
  rig.version("1", '[ "$*" = "$ROAMFLEET_AGENT_ROOT/1/rf-agent.mjs run --help" ]');
  const before = fs.readdirSync(rig.root);
  const [code] = await once(rig.launch("--help"), "exit");
  assert.equal(code, 0);
  assert.deepEqual([fs.readdirSync(rig.root), rig.starts()], [before, []]);
});

test("a launcher that cannot start processes exits with 1, so that systemd starts it again", LIMIT, (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root can run a process as a user that may have one process");
  const user = ["--reuid=65533", "--regid=65533", "--clear-groups"];
  const { status, stderr } = spawnSync("setpriv", [...user, "prlimit", "--nproc=1", "sh", "-c", fs.readFileSync(LAUNCH, "utf8")], {
    encoding: "utf8",
    timeout: 30_000,
  });
  assert.match(stderr, /the launcher failed with status 2/);
  assert.equal(status, 1);
});
