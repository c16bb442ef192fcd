import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { pino } from "pino";
import { readConfig, UsageError } from "../config.ts";
import { statePaths } from "../runtime/paths.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { shellRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig, testConfig } from "../testing/deployments-rig.ts";
import { EVENT_BACKLOG_BYTES_MAX, EVENT_READERS_MAX, EVENTS_KEPT_MAX } from "./events.ts";
import { AgentRefused, AgentUnreachable, askAgent, readEvents } from "./client.ts";
import { LocalInterface } from "./local-interface.ts";
import { LOCAL_BODY_BYTES_MAX, LOCAL_CLIENTS_MAX } from "./server.ts";
import { socketIn } from "./socket-path.ts";

const LIMIT = { timeout: 120_000 };

/** Starts the local API of an agent that installs nothing. */
async function startSide(t: TestContext, more: { group?: string; socket?: string } = {}) {
  const state = temporaryDirectory(t);
  const { socket = socketIn(state), ...rest } = more;
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const side = new LocalInterface({ config: testConfig(state, { local_api: { socket, ...rest } }), clock: systemClock, log });
  mkdirSync(statePaths(state).configs);
  await side.start({ robot_id: "rob_1", name: "arm", agent_version: "1.2.3", key: "file", connected: () => true, apps: () => [] });
  t.after(() => side.stop());
  return { side, state, socket, lines };
}

const refusal = (status: number, code: string) => (error: unknown) => {
  assert.ok(error instanceof AgentRefused, String(error));
  assert.deepEqual([error.status, error.code], [status, code], error.message);
  return true;
};

test("the local API returns the current and desired release of each app", LIMIT, async (t) => {
  const socket = join(temporaryDirectory(t), "agent.sock");
  await using rig = await DeploymentsRig.start({ config: { local_api: { socket } } });
  const release = await shellRelease("one", `echo "socket is $ROAMFLEET_SOCKET"; ${WELL}`);
  await rig.ended(rig.deploy(release));
  const { tag, id, kind } = release.release;
  assert.deepEqual(await askAgent(socket, "GET", "/v1/status"), {
    robot_id: "rob_1",
    name: "arm",
    agent_version: "test",
    key: "file",
    connected: true,
    apps: [
      {
        app: "main",
        current: { id, tag, kind },
        desired: { id, tag, kind },
        phase: null,
        held: null,
        workload: { status: "running", restarts: 0 },
      },
    ],
    lock: null,
  });
  await until("the workload's words", () => rig.logs.some(({ message }) => message === `socket is ${socket}`));
});

test("the local API acquires, renews and releases the update lock for one owner at a time", LIMIT, async (t) => {
  const { socket } = await startSide(t);
  assert.deepEqual(await askAgent(socket, "GET", "/v1/lock"), { lock: null });
  await askAgent(socket, "PUT", "/v1/lock", { owner: "docking", ttl_seconds: 60, pid: process.pid });
  const { lock } = await askAgent<{ lock: { owner: string; pid: number } }>(socket, "GET", "/v1/lock");
  assert.deepEqual([lock.owner, lock.pid], ["docking", process.pid]);
  await assert.rejects(askAgent(socket, "PUT", "/v1/lock", { owner: "mission", ttl_seconds: 60 }), refusal(409, "locked"));
  await assert.rejects(askAgent(socket, "DELETE", "/v1/lock?owner=mission"), refusal(409, "locked"));
  await assert.rejects(askAgent(socket, "DELETE", "/v1/lock"), refusal(400, "invalid"));
  await askAgent(socket, "PUT", "/v1/lock", { owner: "docking", ttl_seconds: 90 });
  assert.deepEqual(await askAgent(socket, "DELETE", "/v1/lock?owner=docking"), { released: true });
  assert.deepEqual(await askAgent(socket, "DELETE", "/v1/lock?force=true"), { released: false });
  for (const body of [
    [],
    {},
    { owner: "", ttl_seconds: 1 },
    { owner: "a\nb", ttl_seconds: 1 },
    { owner: "a", ttl_seconds: 0 },
    { owner: "a", ttl_seconds: 86_401 },
    { owner: "a", ttl_seconds: 1, pid: 4_194_305 },
    { owner: "a", ttl_seconds: 1, more: 1 },
  ])
    await assert.rejects(askAgent(socket, "PUT", "/v1/lock", body), refusal(400, "invalid"), JSON.stringify(body));
});

test("the local API refuses the update lock while an update is in progress", LIMIT, async (t) => {
  const socket = join(temporaryDirectory(t), "agent.sock");
  await using rig = await DeploymentsRig.start({ config: { local_api: { socket } } });
  const target = rig.deploy(await shellRelease("one", WELL), { verify_seconds: 3 });
  await until("verifying", () => rig.statuses(target).includes("verifying"));
  await assert.rejects(askAgent(socket, "PUT", "/v1/lock", { owner: "docking", ttl_seconds: 60 }), refusal(409, "update_in_progress"));
  await rig.ended(target);
  await askAgent(socket, "PUT", "/v1/lock", { owner: "docking", ttl_seconds: 60 });
});

test("the local API lists and returns the configs of any namespace", LIMIT, async (t) => {
  const { socket, state } = await startSide(t);
  const paths = statePaths(state);
  for (const [namespace, content] of [
    ["default", '{"speed":1}'],
    ["arm/left ü", '{"token":"secret"}'],
  ] as const)
    writeFileSync(paths.config(namespace), content);
  writeFileSync(join(paths.configs, "default.json.tmp"), "{");
  const { configs } = await askAgent<{ configs: { namespace: string; bytes: number }[] }>(socket, "GET", "/v1/configs");
  assert.deepEqual(
    configs.map(({ namespace, bytes }) => [namespace, bytes]),
    [
      ["arm/left ü", 18],
      ["default", 11],
    ],
  );
  const read = await askAgent<{ content: unknown }>(socket, "GET", `/v1/configs/${encodeURIComponent("arm/left ü")}`);
  assert.deepEqual(read.content, { token: "secret" });
  for (const path of ["none", "..%2Fagent.sock", "../../etc/passwd"])
    await assert.rejects(askAgent(socket, "GET", `/v1/configs/${path}`), refusal(404, "not_found"), path);
  await assert.rejects(askAgent(socket, "GET", "/v1/configs/%ff"), refusal(400, "invalid"));
});

test("an event reader resumes after its last event and is notified of dropped events", LIMIT, async (t) => {
  const { socket, side } = await startSide(t);
  const seen: { id: string; type: string; data: unknown }[] = [];
  const read = async (after: string | undefined, count: number): Promise<void> => {
    for await (const event of readEvents(socket, after)) if (seen.push(event) >= count) return;
  };
  const first = read(undefined, 3);
  await until("a reader", () => listening(side) === 1);
  side.connectionChanged(true);
  side.permission.takeLock({ owner: "docking", ttl_seconds: 60 });
  side.permission.takeLock({ owner: "docking", ttl_seconds: 60 });
  await first;
  await until("the reader to be gone", () => listening(side) === 0);
  side.permission.releaseLock("docking");
  side.connectionChanged(false, "cut");
  await read(seen.at(-1)?.id, 5);
  assert.deepEqual(
    seen.map(({ type }) => type),
    ["connection.opened", "lock.taken", "lock.renewed", "lock.released", "connection.closed"],
  );
  const old = seen[0]!.id;
  for (let count = 0; count < EVENTS_KEPT_MAX; count += 1) side.connectionChanged(true);
  for (const [after, type] of [
    [old, "events.missed"],
    ["another-1", "events.missed"],
  ] as const) {
    seen.length = 0;
    await read(after, 1);
    assert.equal(seen[0]?.type, type);
  }
});

const listening = (side: LocalInterface): number => side.readers;

test("an event client that does not read is disconnected without effect on other clients", LIMIT, async (t) => {
  const { socket, side, lines } = await startSide(t);
  const stuck = connect(socket);
  stuck.on("error", () => {});
  stuck.pause();
  stuck.write("GET /v1/events HTTP/1.1\r\nhost: robot\r\n\r\n");
  let read = 0;
  const good = request({ socketPath: socket, path: "/v1/events" });
  good.end();
  good.on("error", () => {});
  const [response] = (await once(good, "response")) as [NodeJS.ReadableStream];
  response.on("data", (chunk: Buffer) => (read += chunk.length));
  await until("both readers", () => listening(side) === 2);
  let told = 0;
  while (listening(side) === 2) {
    side.connectionChanged(false, "x".repeat(1_000));
    told += 1;
    assert.ok(told < 10_000, "never cut");
    if (told % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  // The kernel's socket buffers accept additional bytes.
  assert.ok(told * 1_000 < EVENT_BACKLOG_BYTES_MAX + 1024 * 1024, `${told} events`);
  assert.ok(lines.some((line) => line.includes("that was too slow")));
  await until("the good reader to have all", () => read > told * 1_000);
  good.destroy();
});

test("the local API limits request bodies, event readers and clients", LIMIT, async (t) => {
  const { socket, side } = await startSide(t);
  await assert.rejects(
    askAgent(socket, "PUT", "/v1/lock", { owner: "a", ttl_seconds: 1, x: "y".repeat(LOCAL_BODY_BYTES_MAX) }),
    refusal(413, "too_large"),
  );
  await assert.rejects(askAgent(socket, "GET", "/v1/nothing"), refusal(404, "not_found"));
  await assert.rejects(askAgent(socket, "POST", "/v1/lock"), refusal(405, "method_not_allowed"));
  const clients: Socket[] = [];
  t.after(() => clients.forEach((client) => client.destroy()));
  const open = (text: string): Socket => {
    const client = connect(socket);
    client.on("error", () => {});
    client.write(text);
    clients.push(client);
    return client;
  };
  for (let count = 0; count < EVENT_READERS_MAX; count += 1) open("GET /v1/events HTTP/1.1\r\nhost: robot\r\n\r\n");
  await until("all readers", () => listening(side) === EVENT_READERS_MAX);
  await assert.rejects(readEvents(socket).next(), refusal(503, "busy"));
  while (clients.length < LOCAL_CLIENTS_MAX) open("GET /v1/status HTTP/1.1\r\n");
  const late = open("GET /v1/status HTTP/1.1\r\nhost: robot\r\n\r\n");
  late.resume();
  await new Promise((resolve) => late.once("close", resolve));
  assert.equal(late.bytesRead, 0, "a client over the limit is closed without a response");
  for (const client of clients) client.destroy();
  await until("the readers to be gone", () => listening(side) === 0);
  await askAgent(socket, "GET", "/v1/status");
});

test("only the agent's user and the socket's group can use the local API", LIMIT, async (t) => {
  const { socket, state } = await startSide(t, { group: "nogroup" });
  const { mode, gid } = statSync(socket);
  assert.deepEqual([mode & 0o777, gid], [0o660, 65_534]);
  for (const directory of [state, join(state, "run")])
    assert.deepEqual([statSync(directory).mode & 0o777, statSync(directory).gid], [0o710, 65_534], directory);
  if (process.getuid?.() !== 0) return;
  // Asynchronous, since the server is in this process.
  const as = async (group: number, command: string): Promise<string> => {
    const argv = ["--reuid=65534", `--regid=${group}`, "--clear-groups", "sh", "-c", `${command} 2>&1`];
    const child = spawn("setpriv", argv, { stdio: ["ignore", "pipe", "inherit"] });
    return (await child.stdout.toArray()).join("");
  };
  const ask = `curl -sS --unix-socket ${socket} http://robot/v1/lock`;
  assert.match(await as(65_534, ask), /"lock":null/);
  assert.match(await as(65_533, ask), /Couldn't connect|Permission denied|Failed to connect|Could not connect/);
  assert.match(await as(65_534, `ls ${state}`), /Permission denied/);
});

test("replaces a killed agent's socket, but never a running agent's socket or a file that is no socket", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const socket = join(directory, "a.sock");
  const listen = `require("net").createServer().listen(${JSON.stringify(socket)}, () => process.kill(process.pid, "SIGKILL"))`;
  assert.throws(() => execFileSync(process.execPath, ["--eval", listen]));
  assert.ok(statSync(socket).isSocket());
  const { side } = await startSide(t, { socket });
  await askAgent(socket, "GET", "/v1/status");
  const second = await startSide(t, { socket });
  assert.ok(second.lines.some((line) => line.includes("another agent listens")));
  await askAgent(socket, "GET", "/v1/status");
  await side.stop();
  assert.equal(existsSync(socket), false);
  const file = join(directory, "file");
  writeFileSync(file, "mine");
  const third = await startSide(t, { socket: file });
  assert.ok(third.lines.some((line) => line.includes("is not a socket")));
  assert.deepEqual(readdirSync(directory), ["file"]);
});

test("rejects a state directory whose path is too long for a Unix socket", () => {
  const state = `/tmp/${"long".repeat(30)}`;
  assert.throws(
    () => readConfig({ server: "http://127.0.0.1:1", state }, {}),
    (error) => error instanceof UsageError && /140 bytes.*at most 107.*--socket/.test(error.message),
  );
  assert.equal(
    readConfig({ server: "http://127.0.0.1:1", state, socket: "/run/roamfleet.sock" }, {}).local_api?.socket,
    "/run/roamfleet.sock",
  );
});

test("a local API call fails as unreachable when no agent answers on the socket", LIMIT, async (t) => {
  const socket = join(temporaryDirectory(t), "none.sock");
  await assert.rejects(askAgent(socket, "GET", "/v1/status"), AgentUnreachable);
  const server = createServer((client) => client.destroy());
  server.listen(socket);
  await once(server, "listening");
  t.after(() => server.close());
  await assert.rejects(askAgent(socket, "GET", "/v1/status"), AgentUnreachable);
});
