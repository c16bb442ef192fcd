import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { Journal } from "../deployments/journal.ts";
import { type AppState, emptyState, type Work } from "../deployments/state.ts";
import { socketIn } from "../local/socket-path.ts";
import { statePaths } from "../runtime/paths.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { startLinkPeer } from "../testing/link-peer.ts";

/** Long, since each command is a process that loads the agent's sources. */
const LIMIT = { timeout: 300_000 };

interface Run {
  child: ChildProcess;
  out: () => string;
  err: () => string;
  code: Promise<number | null>;
}

function rfAgent(t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]): Run {
  const child = spawn(process.execPath, [join(import.meta.dirname, "..", "main.ts"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk) => (out += String(chunk)));
  child.stderr.on("data", (chunk) => (err += String(chunk)));
  const code = once(child, "close").then(([exit_code]) => exit_code as number | null);
  t.after(() => child.kill("SIGKILL"));
  return { child, out: () => out, err: () => err, code };
}

/** Starts an agent in a separate process, and returns functions that run commands against it. */
async function startRobot(t: TestContext) {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  const state = temporaryDirectory(t);
  const args = ["run", "--server", peer.url, "--enroll-key", "rf_enroll_x", "--state", state, "--name", "arm"];
  const agent = rfAgent(t, {}, ...args);
  await until("the link", () => peer.connected && agent.err().includes("the local socket is open"));
  const say = async (...words: string[]) => {
    const run = rfAgent(t, { ROAMFLEET_STATE: state }, ...words);
    return { code: await run.code, out: run.out(), err: run.err() };
  };
  return { peer, state, agent, args, say };
}

test("rf-agent status, configs and events show the agent's state", LIMIT, async (t) => {
  const { state, peer, say } = await startRobot(t);
  const status = await say("status");
  assert.equal(status.code, 0, status.err);
  assert.match(status.out, /^arm \(rob_1\), agent \S+, connected\nupdate lock: free\nno apps installed\n$/);
  const { robot_id, connected } = JSON.parse((await say("status", "--json")).out) as { robot_id: string; connected: boolean };
  assert.deepEqual([robot_id, connected], ["rob_1", true]);
  mkdirSync(join(state, "configs"), { recursive: true });
  writeFileSync(join(state, "configs", "default.json"), '{"speed":2}');
  assert.match((await say("configs")).out, /^default {2}11 bytes {2}sha256:[0-9a-f]{64}\n$/);
  assert.deepEqual(JSON.parse((await say("configs", "default")).out), { speed: 2 });
  const none = await say("configs", "none");
  assert.deepEqual([none.code, none.err], [5, 'rf-agent: this robot has no config "none"\n']);
  const events = rfAgent(t, { ROAMFLEET_SOCKET: socketIn(state), ROAMFLEET_STATE: "" }, "events");
  await until("the reader to be subscribed", () => {
    peer.drop();
    return events.out() !== "";
  });
  assert.match(events.out(), /^\{"id":"[0-9a-f]+-\d+","type":"connection\.(closed|opened)","data":/);
});

test("rf-agent lock exits 6 if another owner has the update lock, or waits with --wait", LIMIT, async (t) => {
  const { say, state } = await startRobot(t);
  const taken = await say("lock", "--owner", "docking", "--ttl", "10m");
  assert.deepEqual([taken.code, taken.out], [0, "docking holds the update lock for 600 s\n"]);
  assert.match((await say("status")).out, /update lock: held by docking for another \d+ s/);
  const refused = await say("lock", "--owner", "mission");
  assert.equal(refused.code, 6);
  assert.match(refused.err, /docking holds the update lock/);
  const waiting = rfAgent(t, { ROAMFLEET_STATE: state }, "lock", "--owner", "mission", "--ttl", "10m", "--wait");
  await until("the wait", () => waiting.err().includes("waiting: docking holds the update lock"));
  assert.equal((await say("unlock", "--owner", "mission")).code, 6);
  assert.equal((await say("unlock", "--owner", "docking")).out, "unlocked\n");
  assert.equal(await waiting.code, 0, waiting.err());
  assert.equal((await say("unlock", "--force")).out, "unlocked\n");
  assert.equal((await say("unlock", "--owner", "docking")).out, "there was no lock\n");
  for (const words of [["lock", "--owner", "x", "--ttl", "soon"], ["lock"], ["unlock"], ["lock", "--owner", "x", "--ttl", "25h"]])
    assert.equal((await say(...words)).code, 2, words.join(" "));
});

test("rf-agent lock -- COMMAND keeps the lock until COMMAND ends, even if rf-agent is killed", LIMIT, async (t) => {
  const { say, state } = await startRobot(t);
  const file = join(state, "update.lock");
  const ran = await say("lock", "--owner", "docking", "--", "sh", "-c", `grep -o '"owner": "[a-z]*"' ${file}; exit 7`);
  assert.deepEqual([ran.code, ran.out], [7, '"owner": "docking"\n'], ran.err);
  assert.equal(existsSync(file), false);
  const wrapper = rfAgent(
    t,
    { ROAMFLEET_STATE: state },
    "lock",
    "--owner",
    "docking",
    "--ttl",
    "10m",
    "--",
    "sh",
    "-c",
    "echo $$; exec sleep 600",
  );
  await until("the command", () => wrapper.out() !== "");
  const pid = Number(wrapper.out());
  t.after(() => {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has ended already, as expected.
    }
  });
  await until("the lock to be the command's", () => (JSON.parse(readFileSync(file, "utf8")) as { pid: number }).pid === pid);
  wrapper.child.kill("SIGKILL");
  assert.match((await say("status")).out, new RegExp(`held by docking \\(process ${pid}\\)`));
  process.kill(pid, "SIGKILL");
  await until("the lock to expire", () => !existsSync(file));
  assert.match((await say("status")).out, /update lock: free/);
  const missing = await say("lock", "--owner", "docking", "--", "/no/such/program");
  assert.equal(missing.code, 1);
  assert.equal(existsSync(file), false);
});

test("rf-agent lock fails when no agent runs and the lock file's path is unknown", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const socket = join(directory, "agent.sock");
  for (const words of [
    ["lock", "--owner", "docking"],
    ["unlock", "--owner", "docking"],
  ]) {
    const run = rfAgent(t, { ROAMFLEET_SOCKET: socket, ROAMFLEET_STATE: "" }, ...words);
    assert.deepEqual([await run.code, run.err()], [7, `rf-agent: no agent listens at ${socket}\n`]);
  }
  assert.deepEqual(readdirSync(directory), []);
  // The default socket path in a workload's environment also reveals the state directory.
  const run = rfAgent(t, { ROAMFLEET_SOCKET: socketIn(directory), ROAMFLEET_STATE: "" }, "lock", "--owner", "docking");
  assert.equal(await run.code, 0, run.err());
  assert.deepEqual(readdirSync(directory), ["update.lock"]);
});

test("rf-agent lock fails if an update is unfinished or the agent does not answer", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const { journal } = Journal.open<AppState>(statePaths(directory).journal, ({ app }) => app);
  const lock = () => rfAgent(t, { ROAMFLEET_STATE: directory }, "lock", "--owner", "docking");
  const work: Work = {
    target_id: null,
    deployment_id: null,
    attempt: 1,
    release: null,
    verify_seconds: 1,
    phase: "installing",
    tries: 1,
    failure: null,
  };
  journal.append({ ...emptyState("main"), work });
  const refused = lock();
  assert.equal(await refused.code, 6, refused.err());
  assert.match(refused.err(), /app main is being changed \(installing\)/);
  journal.append({ ...emptyState("main"), work: { ...work, phase: "downloading" } });
  journal.close();
  const server = createServer((client) => client.destroy());
  mkdirSync(join(directory, "run"));
  server.listen(socketIn(directory));
  await once(server, "listening");
  t.after(() => server.close());
  const busy = lock();
  assert.equal(await busy.code, 7, busy.err());
  assert.equal(existsSync(join(directory, "update.lock")), false);
  server.close();
  await once(server, "close");
  const taken = lock();
  assert.equal(await taken.code, 0, taken.err());
});

test("rf-agent lock writes a lock for the agent's next start when no agent runs", LIMIT, async (t) => {
  const { say, state, agent, args, peer } = await startRobot(t);
  agent.child.kill("SIGTERM");
  assert.equal(await agent.code, 0, agent.err());
  const status = await say("status");
  assert.deepEqual([status.code, status.err], [7, `rf-agent: no agent listens at ${socketIn(state)}\n`]);
  const taken = await say("lock", "--owner", "docking", "--ttl", "2h");
  assert.equal(taken.code, 0, taken.err);
  assert.match(taken.err, /the lock takes effect when the agent starts/);
  assert.equal((await say("lock", "--owner", "mission")).code, 6);
  const again = rfAgent(t, {}, ...args);
  await until("the socket", () => again.err().includes("the local socket is open") && peer.connected);
  assert.match((await say("status")).out, /held by docking for another 7\d\d\d s/);
  assert.equal((await say("unlock", "--owner", "docking")).out, "unlocked\n");
});
