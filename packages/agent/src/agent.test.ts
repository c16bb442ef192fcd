import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { idleActivity, SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { CONTROL_CHANNEL, type Desired, encodeFrame, FLAG_MORE, FrameType } from "@roamfleet/protocol/link";
import { type Agent, type AgentOptions, startAgent } from "./agent.ts";
import { StateLockedError } from "./disk/lock.ts";
import { EnrollmentRefused } from "./identity/enroll.ts";
import { agentConfig, idleDeployments, temporaryDirectory } from "./testing/agent-rig.ts";
import { type LinkPeer, startLinkPeer } from "./testing/link-peer.ts";

const LIMIT = { timeout: 120_000 };

interface Rig {
  peer: LinkPeer;
  agent: Agent;
  directory: string;
  clock: SimulatedClock;
  deployments: ReturnType<typeof idleDeployments>;
}

async function startRig(t: TestContext, prepare: (peer: LinkPeer) => void = () => {}, more: Partial<AgentOptions> = {}): Promise<Rig> {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  prepare(peer);
  const directory = temporaryDirectory(t);
  const clock = new SimulatedClock({ at: new Date().toISOString() });
  const deployments = idleDeployments();
  const { activity } = clock;
  const config = agentConfig(peer.url, directory);
  const agent = await startAgent({ config, clock, activity, create_deployments: deployments.create, ...more });
  t.after(() => agent.stop());
  return { peer, agent, directory, clock, deployments };
}

const desiredOf = (generation: number): Desired => ({ type: "desired", generation, apps: {}, configs: {} });
const statuses = (peer: LinkPeer): string[] =>
  peer.reports.map(({ body }) => (body.kind === "observed" ? `observed ${body.generation}` : body.kind));

test("a new robot enrolls, connects, and reports its apps before health and logs", LIMIT, async (t) => {
  const { peer, agent, directory, clock } = await startRig(t);
  assert.equal(statSync(join(directory, "identity", "key.pem")).mode & 0o777, 0o600);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
  await until("logs and health", () => peer.records.some(({ message }) => message === "agent started") && peer.order.includes("health"), {
    meanwhile: () => clock.advance({ seconds: 1 }),
  });
  assert.equal(agent.connected, true);
  assert.deepEqual(peer.order.slice(0, 2), ["hello", "report"]);
  const [hello] = peer.hellos;
  assert.deepEqual([hello!.robot_id, hello!.kinds, hello!.generation], [agent.robot_id, ["app_bundle"], 0]);
  assert.deepEqual(hello!.streams, ["echo", "shell", "camera", "forward", "files", "topics"]);
  assert.deepEqual(
    peer.health[0]!.workloads.map(({ app }) => app),
    ["main"],
  );
  assert.equal(peer.records[0]!.source, "agent");
});

test("an enrolled agent restarts without an enrollment key and keeps its robot ID, outbox and generation", LIMIT, async (t) => {
  const { peer, agent, directory, clock } = await startRig(t);
  await until("the link", () => peer.connected);
  peer.send(desiredOf(7));
  await until("the report", () => statuses(peer).includes("observed 7"));
  await agent.stop();
  await until("the server to receive the close", () => peer.close_code !== undefined);
  assert.equal(peer.close_code, 1001);
  const config = agentConfig(peer.url, directory);
  delete config.enroll_key;
  const again = await startAgent({ config, clock, create_deployments: idleDeployments().create });
  t.after(() => again.stop());
  await until("the second hello", () => peer.hellos.length === 2);
  assert.equal(again.robot_id, agent.robot_id);
  assert.equal(peer.hellos[1]!.generation, 7);
  assert.equal(peer.hellos[1]!.outbox_id, peer.hellos[0]!.outbox_id);
  assert.equal(peer.enrollments.length, 1);
});

test("reports the current generation instead of applying an old or repeated desired state", LIMIT, async (t) => {
  const rig = await startRig(t);
  const { peer, deployments, directory } = rig;
  await until("the link", () => peer.connected);
  peer.send(desiredOf(5));
  peer.send(desiredOf(4));
  peer.send(desiredOf(5));
  peer.send(desiredOf(6));
  await until("the last report", () => statuses(peer).includes("observed 6"));
  assert.deepEqual(
    deployments.received.map(({ generation }) => generation),
    [5, 6],
  );
  assert.deepEqual(
    statuses(peer).filter((status) => status.startsWith("observed")),
    ["observed 5", "observed 5", "observed 5", "observed 6"],
  );
  assert.equal((JSON.parse(readFileSync(join(directory, "desired.json"), "utf8")) as Desired).generation, 6);
});

test("resends only unacknowledged reports and logs after a reconnect", LIMIT, async (t) => {
  const { peer, clock, deployments } = await startRig(t, ({ behavior }) => (behavior.ack = false));
  await until("the link", () => peer.connected);
  for (const generation of [1, 2, 3]) deployments.given().reporter.report({ kind: "observed", generation });
  deployments.given().logs.write({ level: "warn", source: "main", message: "kept" });
  await until("the record", () => peer.records.some(({ message }) => message === "kept"), {
    meanwhile: () => clock.advance({ seconds: 1 }),
  });
  await until("the reports", () => statuses(peer).includes("observed 3"));
  const first = statuses(peer);
  peer.reports.length = 0;
  peer.records.length = 0;
  peer.behavior.ack = true;
  peer.drop();
  await until("the second link", () => peer.hellos.length === 2 && peer.connected, { meanwhile: () => clock.advance({ seconds: 1 }) });
  await until("the reports again", () => statuses(peer).length > first.length);
  assert.deepEqual(statuses(peer).slice(0, first.length), first);
  await until("the record again", () => peer.records.some(({ message }) => message === "kept"), {
    meanwhile: () => clock.advance({ seconds: 1 }),
  });
  await peer.settled();
  peer.drop();
  const count = peer.reports.length;
  await until("the third link", () => peer.hellos.length === 3 && peer.connected, { meanwhile: () => clock.advance({ seconds: 1 }) });
  await until("its announcement", () => peer.reports.length > count);
  assert.equal(new Set(peer.reports.map(({ seq }) => seq)).size, peer.reports.length);
  assert.deepEqual(statuses(peer).slice(count), ["app"]);
});

test("closes the link when the server does not answer pings for three heartbeat intervals", LIMIT, async (t) => {
  // Without acknowledgements the server sends no frame at all.
  const { peer, agent, clock } = await startRig(t, ({ behavior }) => Object.assign(behavior, { ignore_pings: true, ack: false }));
  await until("the link", () => agent.connected);
  await clock.advance({ seconds: 44 });
  assert.equal(agent.connected, true);
  await clock.advance({ seconds: 2 });
  await until("the link given up", () => peer.attempts > 1 || !agent.connected);
});

test("keeps the link open for an hour if the server only answers pings", LIMIT, async (t) => {
  const { peer, agent, clock } = await startRig(t);
  await until("the link", () => agent.connected);
  for (let heartbeat = 0; heartbeat < 240; heartbeat += 1) {
    await clock.advance({ seconds: 15 });
    await peer.settled();
  }
  assert.equal(peer.attempts, 1);
  assert.equal(agent.connected, true);
});

test("the agent disconnects from a server that sends no challenge within ten seconds", LIMIT, async (t) => {
  // Pass an idle activity: otherwise the missing response counts as work in flight, and `advance` waits for it.
  const { peer, clock } = await startRig(t, ({ behavior }) => (behavior.mute = true), { activity: idleActivity });
  await until("the first attempt", () => peer.attempts === 1);
  await clock.advance({ seconds: 9 });
  assert.equal(peer.attempts, 1);
  await until("the second attempt", () => peer.attempts === 2, { meanwhile: () => clock.advance({ seconds: 1 }) });
});

/** Asserts that the next connection attempt comes between `least` and `most` seconds of simulated time. */
async function assertNextAttempt({ peer, clock }: Rig, [least, most]: readonly [number, number]): Promise<void> {
  const before = peer.attempts;
  // An attempt counts as work in flight, so the peer has received it when `advance` returns.
  await clock.advance({ milliseconds: least * 1_000 - 1 });
  assert.equal(peer.attempts, before, `it came before ${least} s were over`);
  await clock.advance({ milliseconds: (most - least) * 1_000 + 1 });
  assert.ok(peer.attempts > before, `it did not come within ${most} s`);
}

test("reconnects after 42 s when the WebSocket upgrade returns 503 with Retry-After: 42", LIMIT, async (t) => {
  const lines: string[] = [];
  const rig = await startRig(t, undefined, { log: (line) => void lines.push(line) });
  await until("the link", () => rig.agent.connected);
  rig.peer.behavior.refuse_http = { status: 503, headers: { "Retry-After": "42" }, message: "starting" };
  rig.peer.drop();
  await until("the refusal", () => lines.some((line) => line.includes("starting")), {
    meanwhile: () => rig.clock.advance({ milliseconds: 100 }),
  });
  // The refusal came at an unknown time within the last 100 ms.
  await assertNextAttempt(rig, [41.9, 42]);
});

const REFUSALS = [
  { refuse: { code: "busy", message: "full", retry_after_ms: 33_000 }, seconds: [33, 33] },
  { refuse: { code: "decommissioned", message: "this robot was removed" }, seconds: [240, 300] },
  { refuse: { code: "unknown_robot", message: "no such robot" }, seconds: [240, 300] },
] as const;

for (const { refuse, seconds } of REFUSALS) {
  test(`logs the refusal ${refuse.code} and reconnects after ${seconds[0]} to ${seconds[1]} s`, LIMIT, async (t) => {
    const lines: string[] = [];
    const rig = await startRig(t, ({ behavior }) => (behavior.refuse = refuse), { log: (line) => void lines.push(line) });
    await until("the refusal", () => lines.some((line) => line.includes(`${refuse.code}: ${refuse.message}`)));
    await assertNextAttempt(rig, seconds);
  });
}

test("closes the link on GOAWAY with retry_after_ms 20000 and reconnects after 20 s", LIMIT, async (t) => {
  const rig = await startRig(t);
  await until("the link", () => rig.agent.connected);
  rig.peer.goAway(20_000);
  await until("the goodbye", () => rig.peer.close_code === 1001);
  await until("the end", () => !rig.agent.connected);
  await assertNextAttempt(rig, [20, 20]);
});

test("sends log records immediately only while a client follows the log", LIMIT, async (t) => {
  const { peer, agent, clock, deployments } = await startRig(t, ({ behavior }) => (behavior.welcome.log_flush_ms = 5_000));
  await until("the link and what was logged before", () => agent.connected && peer.records.length > 0);
  const { logs } = deployments.given();
  const arrived = (message: string): boolean => peer.records.some((record) => record.message === message);
  // A pending flush of earlier records would also send the next one.
  logs.write({ level: "info", source: "main", message: "before" });
  await until("the flush before", () => arrived("before"), { meanwhile: () => clock.advance({ seconds: 1 }) });
  logs.write({ level: "info", source: "main", message: "slow" });
  await clock.advance({ seconds: 4 });
  assert.equal(arrived("slow"), false);
  // While records keep coming, flushes are 10 s apart.
  await clock.advance({ seconds: 7 });
  await until("the record", () => arrived("slow"));
  peer.send({ type: "log_follow", on: true });
  await peer.settled();
  logs.write({ level: "info", source: "main", message: "fast" });
  await clock.advance({ milliseconds: 100 });
  await until("the record that is followed", () => arrived("fast"));
});

test("a robot with a wrong clock stamps reports with the server's time and reports an error", LIMIT, async (t) => {
  const wrong = new SimulatedClock({ at: "1970-01-01T00:10:00Z" });
  const { peer, deployments } = await startRig(t, undefined, { clock: wrong });
  await until("health", () => peer.health.length === 1);
  deployments.given().reporter.report({ kind: "observed", generation: 1 });
  await until("the report", () => statuses(peer).includes("observed 1"));
  const at = Date.parse(peer.reports.at(-1)!.at);
  assert.ok(Math.abs(at - Date.now()) < 60_000, peer.reports.at(-1)!.at);
  const check = peer.health[0]!.checks.find(({ name }) => name === "clock");
  assert.equal(check!.status, "error");
});

test("sends ros_adapters in health only to a server that supports the field", LIMIT, async (t) => {
  const healthFor = async (...features: string[]) => {
    const { peer } = await startRig(t, ({ behavior }) => (behavior.welcome.features = features));
    await until("health", () => peer.health.length === 1);
    return peer.health[0]!;
  };
  assert.deepEqual((await healthFor("credit", "channels", "ros_adapters")).ros_adapters, []);
  const older = await healthFor("credit", "channels");
  assert.deepEqual([older.ros, "ros_adapters" in older], [null, false]);
});

test("reduces reports of unchanged health only for a server that supports this", LIMIT, async (t) => {
  const sentIn9Minutes = async (...features: string[]): Promise<number> => {
    const { peer, clock } = await startRig(t, ({ behavior }) => (behavior.welcome = { features, health_seconds: 30 }));
    await until("health", () => peer.health.length === 1);
    for (let i = 0; i < 18; i += 1) {
      await clock.advance({ seconds: 30 });
      await peer.settled();
    }
    return peer.health.length;
  };
  assert.ok((await sentIn9Minutes()) >= 15);
  const sent = await sentIn9Minutes("health_changes");
  assert.ok(sent >= 2 && sent <= 12, `${sent}`);
});

test("sends compressed messages only to a server that supports them", LIMIT, async (t) => {
  const { peer, agent, clock } = await startRig(t, (made) => (made.behavior.welcome = { features: [] }));
  const advance = (): Promise<void> => clock.advance({ seconds: 1 });
  const isMessage = (message: string): boolean => peer.records.some((record) => record.message === message);
  const text = "a message that is long enough to be compressed ".repeat(10);
  agent.log.info(text);
  await until("the log", () => isMessage(text), { meanwhile: advance });
  assert.equal(peer.packed, 0);
  peer.behavior.welcome = { features: ["packed"] };
  peer.drop();
  await until("the link is up again", () => peer.hellos.length === 2 && agent.connected, { meanwhile: advance });
  agent.log.info(`${text} again`);
  await until("the log", () => isMessage(`${text} again`), { meanwhile: advance });
  assert.ok(peer.packed > 0);
  assert.ok(peer.hellos.every((hello) => hello.features?.includes("packed")));
});

test("refuses to start on a state directory until the agent that uses it has stopped", LIMIT, async (t) => {
  const { peer, agent, directory, clock } = await startRig(t);
  const options = { config: agentConfig(peer.url, directory), clock, create_deployments: idleDeployments().create };
  await assert.rejects(startAgent(options), StateLockedError);
  await agent.stop();
  await (await startAgent(options)).stop();
});

test("a refused enrollment key aborts the start with the server's reason", LIMIT, async (t) => {
  await assert.rejects(
    startRig(t, ({ behavior }) => (behavior.refuse_http = { status: 403, message: "the key is exhausted" })),
    (error) => error instanceof EnrollmentRefused && error.message.includes("the key is exhausted"),
  );
});

test("retries enrollment with the same public key until the server is ready", LIMIT, async (t) => {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  peer.behavior.refuse_http = { status: 503, message: "starting" };
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const directory = temporaryDirectory(t);
  const lines: string[] = [];
  let agent: Agent | undefined;
  const config = agentConfig(peer.url, directory);
  const starting = startAgent({ config, clock, create_deployments: idleDeployments().create, log: (line) => void lines.push(line) });
  t.after(() => agent?.stop());
  void starting.then((started) => (agent = started));
  await until("a few tries", () => lines.filter((line) => line.includes("could not enroll")).length >= 3, {
    meanwhile: () => clock.advance({ seconds: 5 }),
  });
  const key = readFileSync(join(directory, "identity", "key.pem"), "utf8");
  peer.behavior.refuse_http = undefined;
  await until("the enrollment", () => agent, { meanwhile: () => clock.advance({ seconds: 5 }) });
  // A response that arrives late causes one more request.
  assert.equal(new Set(peer.enrollments.map(({ public_key }) => public_key)).size, 1);
  assert.equal(readFileSync(join(directory, "identity", "key.pem"), "utf8"), key);
});

test("stopping the agent aborts an enrollment that waits for the server", LIMIT, async (t) => {
  const stopping = new AbortController();
  const starting = startAgent({
    config: agentConfig("http://127.0.0.1:9", temporaryDirectory(t)),
    clock: systemClock,
    signal: stopping.signal,
  });
  setImmediate(() => stopping.abort());
  await assert.rejects(starting);
});

test("disconnects from a server that sends an endless message in fragments of any size", LIMIT, async (t) => {
  const { peer, clock } = await startRig(t);
  const links = async (count: number): Promise<void> => {
    await until("the link", () => peer.connected && peer.hellos.length === count, { meanwhile: () => clock.advance({ seconds: 5 }) });
  };
  for (const [attack, bytes] of [0, 1, 64 * 1024].entries()) {
    await links(attack + 1);
    const frame = encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.alloc(bytes, 32), FLAG_MORE);
    for (let i = 0; i < 5_000 && peer.connected; i += 1) peer.sendRaw(frame);
    await until("the robot to close", () => !peer.connected);
    assert.equal(peer.close_code, 1002);
  }
  await links(4);
});

test("the agent updates its estimate of the server's time with each heartbeat", LIMIT, async (t) => {
  const { peer, deployments, clock } = await startRig(t, ({ behavior }) => (behavior.welcome = { heartbeat_seconds: 10 }));
  await until("the link", () => peer.connected);
  const later = Date.parse("2040-01-01T00:00:00Z");
  peer.behavior.server_time = () => later;
  await until("the new time", () => (deployments.given().server_time?.() ?? 0) >= later, {
    meanwhile: () => clock.advance({ seconds: 10 }),
  });
});

const ROOT = process.getuid?.() === 0 ? {} : { skip: "only root mounts a small disk" };

test("a config deployment fails with insufficient_disk when the robot's disk is full", { ...LIMIT, ...ROOT }, async (t) => {
  const { peer, directory } = await startRig(t);
  await until("the link", () => peer.connected);
  peer.send(desiredOf(1));
  await until("the first state", () => statuses(peer).includes("observed 1"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4k", "none", directory]);
  try {
    writeFileSync(join(directory, "ballast"), Buffer.alloc(4_096));
    const config = { version: 2, sha256: "a".repeat(64), target_id: "tgt_1", deployment_id: "dep_1", attempt: 1 };
    peer.send({ ...desiredOf(2), configs: { nav: config } });
    const report = await until("the end", () => peer.reports.find(({ body }) => body.kind === "target"));
    assert.deepEqual(report.body, {
      kind: "target",
      target_id: "tgt_1",
      deployment_id: "dep_1",
      attempt: 1,
      status: "failed",
      reason: "insufficient_disk",
      message: "the robot's disk is full",
    });
  } finally {
    execFileSync("umount", ["-l", directory]);
  }
});
