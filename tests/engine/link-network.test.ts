import assert from "node:assert/strict";
import { sign } from "node:crypto";
import { once } from "node:events";
import type http from "node:http";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import {
  type Channel,
  CHANNEL_WINDOW_BYTES,
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FrameType,
  LINK_PROTOCOLS,
  LINK_SLOT_HEADER,
  LINK_SUBPROTOCOL,
  RETRY_AFTER_MS_HEADER,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import { type Agent, startAgent } from "../../packages/agent/src/agent.ts";
import { agentConfig, idleDeployments, temporaryDirectory } from "../../packages/agent/src/testing/agent-rig.ts";
import { row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import type { Session } from "../../packages/server/src/link/index.ts";
import { type Harness, type HarnessOptions, startPlane } from "../harness/index.ts";
import { Proxy, type Shape } from "../harness/proxy.ts";

const TIMEOUT = { timeout: 120_000 };
const KIB = 1024;

interface Rig extends AsyncDisposable {
  plane: Harness;
  proxy: Proxy;
  agent: Agent;
  lines: string[];
  deployments: ReturnType<typeof idleDeployments>;
  session: () => Session;
}

/** Starts a plane and a real agent, with an adjustable network between them. */
async function startRig(t: TestContext, options: HarnessOptions = {}): Promise<Rig> {
  const plane = await startPlane(options);
  const proxy = await Proxy.start(() => plane.url);
  const lines: string[] = [];
  const deployments = idleDeployments();
  const config = agentConfig(proxy.url, temporaryDirectory(t), { enroll_key: await plane.enrollmentKey() });
  const agent = await startAgent({ config, clock: systemClock, create_deployments: deployments.create, log: (line) => lines.push(line) });
  const rig: Rig = {
    plane,
    proxy,
    agent,
    lines,
    deployments,
    session: () => plane.plane.link.session(agent.robot_id)!,
    [Symbol.asyncDispose]: async () => {
      await agent.stop();
      await proxy[Symbol.asyncDispose]();
      await plane[Symbol.asyncDispose]();
    },
  };
  await plane.until("the robot's link", () => agent.connected && rig.session() !== undefined);
  return rig;
}

/** Sends one message and returns its echo. */
async function echoed(channel: Channel, message: string): Promise<string> {
  await channel.write(Buffer.from(message));
  return String(await channel.read());
}

/** Writes until the channel is full. Returns the number of written bytes, which the reader receives later. */
async function fill(plane: Harness, channel: Channel, meanwhile: () => Promise<unknown>): Promise<number> {
  let taken = 0;
  let writing = 0;
  let full = false;
  void (async () => {
    while (await channel.write(new Uint8Array(16 * KIB))) {
      taken += 16 * KIB;
      writing += 1;
    }
  })();
  await plane.until("the channel to be full", async () => {
    const before = writing;
    // Wait for many round trips of another channel. After these, no bytes are in transit.
    for (let i = 0; i < 20; i += 1) await meanwhile();
    full = writing === before;
    return full;
  });
  return taken;
}

test("a stream that is not read stops at its flow control window without delaying other streams", TIMEOUT, async (t) => {
  await using rig = await startRig(t);
  const shell = await rig.session().openChannel("echo", "shell");
  const stuck = await rig.session().openChannel("echo", "camera");
  const taken = await fill(rig.plane, stuck, () => echoed(shell, "are you there"));
  // The upper bound is one window in each direction, plus the buffers at both ends.
  assert.ok(taken <= 2 * CHANNEL_WINDOW_BYTES + 256 * KIB, `${taken} bytes were taken`);
  const other = await rig.session().openChannel("echo", "camera");
  for (let i = 0; i < 20; i += 1) assert.equal(await echoed(other, `frame ${i}`), `frame ${i}`);
  rig.deployments.given().reporter.report({ kind: "app", app: "aside", release_id: null, previous_release_id: null, status: "failed" });
  await rig.plane.until("the report", () => appStatus(rig, "aside"));
  stuck.reset(1000, "seen enough");
  assert.equal(await echoed(shell, "still there"), "still there");
});

const appStatus = async ({ plane, agent }: Rig, app: string): Promise<string | undefined> =>
  (
    await plane.db.maybe(
      sql(
        row({ status: text }),
      )`select status from robot_app where org_id = ${plane.default_org.id} and robot_id = ${agent.robot_id} and app = ${app}`,
    )
  )?.status;

test("a shell's keystroke overtakes earlier bulk data on a slow link in both directions", TIMEOUT, async (t) => {
  await using rig = await startRig(t);
  const shape: Shape = { delay_ms: 30, bytes_per_second: { up: 40_000, down: 40_000 } };
  rig.proxy.shape = shape;
  const [shell, camera] = [await rig.session().openChannel("echo", "shell"), await rig.session().openChannel("echo", "camera")];
  const IMAGE = 96 * KIB;
  let bulk = 0;
  const reading = (async () => {
    while (bulk < IMAGE) bulk += (await camera.read())!.length;
  })();
  for (let sent = 0; sent < IMAGE; sent += 8 * KIB) await camera.write(new Uint8Array(8 * KIB));
  assert.equal(await echoed(shell, "k"), "k");
  // If messages were sent in order, this one would arrive after all bulk data. The bound is 8 KiB in transit in each direction at 40 kB/s,
  // plus what was echoed meanwhile.
  assert.ok(bulk <= IMAGE / 2, `the key came after ${bulk} bytes of bulk`);
  rig.proxy.shape = {};
  await reading;
});

test("refuses with 4410 a kind of stream that the robot does not support", TIMEOUT, async (t) => {
  await using rig = await startRig(t);
  await assert.rejects(rig.session().openChannel("teleport", "shell"), { code: 4410 });
});

test("an agent without optional features refuses streams with 4410", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot();
  await assert.rejects(plane.plane.link.session(robot.id)!.openChannel("echo", "shell"), { code: 4410 });
});

test("a link that loses all packets is closed by both ends, and reopened when the network recovers", TIMEOUT, async (t) => {
  await using rig = await startRig(t, { limits: { heartbeat_seconds: 1 } });
  const { proxy, plane, agent } = rig;
  const session = rig.session();
  const channel = await session.openChannel("echo", "shell");
  proxy.blackHole(true);
  await plane.until("both ends to notice", () => !agent.connected && plane.plane.link.session(agent.robot_id) === undefined);
  assert.equal((await channel.ended).reason, "no heartbeat received");
  assert.ok(
    rig.lines.some((line) => line.includes("the server sent nothing for")),
    rig.lines.join("\n"),
  );
  proxy.blackHole(false);
  proxy.reset();
  await plane.until("the link to be back", () => agent.connected && rig.session() !== undefined && rig.session() !== session);
});

test("a robot's reports during a server restart are delivered afterwards", TIMEOUT, async (t) => {
  await using rig = await startRig(t);
  const { plane, deployments } = rig;
  await plane.stop();
  await plane.until("the robot to be disconnected", () => rig.lines.some((line) => line.includes("the server is shutting down")));
  for (let i = 0; i < 50; i += 1)
    deployments.given().reporter.report({ kind: "app", app: `app-${i}`, release_id: null, previous_release_id: null, status: "failed" });
  await plane.restart();
  await plane.until("the last report", () => appStatus(rig, "app-49"));
  for (let i = 0; i < 50; i += 1) assert.equal(await appStatus(rig, `app-${i}`), "failed");
});

/** Requests an upgrade like a robot. Returns the headers of the refusal, or undefined if the upgrade was accepted. */
async function ask(plane: Harness, slot?: string): Promise<http.IncomingHttpHeaders | undefined> {
  const socket = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, {
    headers: slot === undefined ? {} : { [LINK_SLOT_HEADER]: slot },
  });
  socket.on("error", () => {});
  const refused = once(socket, "unexpected-response").then(([, response]) => response as http.IncomingMessage);
  const response = await Promise.race([refused, once(socket, "message").then(() => undefined)]);
  socket.terminate();
  if (response === undefined) return undefined;
  assert.equal(response.statusCode, 503);
  return response.headers;
}

/** Number of robots that connect concurrently: more than the admission queue accepts in half a minute. */
const STORM = 150;

test("robots that connect concurrently beyond the rate limit get a reserved time slot to reconnect", TIMEOUT, async (t) => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z", limits: { link_accepts_per_second: 4 } });
  const passing = { meanwhile: () => plane.advance({ seconds: 1 }) };
  const enroll_key = await plane.enrollmentKey();
  const away: http.IncomingHttpHeaders[] = [];
  let answered = 0;
  const storm = Array.from({ length: STORM }, async () => {
    const headers = await ask(plane);
    answered += 1;
    if (headers !== undefined) away.push(headers);
  });
  await plane.until("the queue to be full", () => away.length > 0);
  const first = away[0]!;
  assert.match(String(first[RETRY_AFTER_MS_HEADER]), /^\d+$/);
  assert.equal(Number(first["retry-after"]), Math.ceil(Number(first[RETRY_AFTER_MS_HEADER]) / 1_000));
  const slot = String(first[LINK_SLOT_HEADER]);
  assert.equal((await ask(plane, slot))?.[LINK_SLOT_HEADER], slot, "returns the same slot until its time");

  const lines: string[] = [];
  const { clock, activity } = plane;
  const config = agentConfig(plane.url, temporaryDirectory(t), { enroll_key });
  const create_deployments = idleDeployments().create;
  const agent = await startAgent({ config, clock, activity, create_deployments, log: (line) => lines.push(line) });
  await using own = new AsyncDisposableStack();
  own.defer(async () => {
    let is_stopped = false;
    const stopping = agent.stop().finally(() => (is_stopped = true));
    await plane.until("the agent to stop", () => is_stopped, passing);
    await stopping;
  });
  await plane.until("all to be answered, and the robot to be admitted", () => answered === STORM && agent.connected, passing);
  await Promise.all(storm);
  assert.ok(away.length < STORM, `${away.length} of ${STORM} were refused`);
  const refusals = lines.filter((line) => line.includes("retry at the given time"));
  assert.ok(refusals.length <= 1, lines.join("\n"));
  let is_in: boolean | undefined;
  void ask(plane, slot).then((headers) => (is_in = headers === undefined));
  await plane.until("the slot to be used", () => is_in !== undefined, passing);
  assert.equal(is_in, true);
});

test("refuses a robot with another protocol version with a message that names both versions", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot({ online: false });
  for (const [protocols, upgrade] of [
    [[98, 99], "server"],
    [[1], "agent"],
  ] as const) {
    const socket = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL);
    const [challenge] = (await once(socket, "message")) as [Buffer];
    const { protocols: offered, nonce } = JSON.parse(String(decodeFrame(challenge).payload)) as { protocols: number[]; nonce: string };
    assert.deepEqual(offered, [...LINK_PROTOCOLS]);
    // Sign in the format of protocol version 1.
    const signature = sign(null, Buffer.from(`roamfleet-link-v1\n${robot.id}\n${nonce}`), robot.identity.private_key).toString("base64");
    const hello = {
      type: "hello",
      protocols,
      robot_id: robot.id,
      signature,
      boot_id: "b",
      run_id: "n",
      outbox_id: "o",
      agent_version: "9",
    };
    const more = { platform: {}, kinds: [], streams: [], generation: 0, features: ["telepathy"], new_field: { of: "later" } };
    socket.send(encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.from(JSON.stringify({ ...hello, ...more }))));
    const closed = once(socket, "close") as Promise<[number, Buffer]>;
    const ended = closed.then(([code, reason]) => assert.fail(`closed with ${code} ${String(reason)} before a refusal`));
    const [refused] = (await Promise.race([once(socket, "message"), ended])) as [Buffer];
    ended.catch(() => {});
    const { code, message } = JSON.parse(String(decodeFrame(refused).payload)) as { code: string; message: string };
    assert.equal(code, "unsupported_protocol");
    assert.match(message, new RegExp(`version ${protocols.join(", ")}: upgrade the ${upgrade}$`));
    assert.equal((await closed)[0], 4001);
  }
  const other = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, "roamfleet.link.v9");
  other.on("error", () => {});
  const [, response] = (await once(other, "unexpected-response")) as [unknown, http.IncomingMessage];
  assert.deepEqual([response.statusCode, response.headers["sec-websocket-protocol"]], [426, LINK_SUBPROTOCOL]);
  other.terminate();
});
