import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { systemClock } from "@roamfleet/clock";
import { httpRequestText, robotAuthorization } from "@roamfleet/protocol/link";
import type { Client } from "@roamfleet/sdk";
import { httpClient, readText, signedFetcher } from "../../packages/agent/src/http/request.ts";
import { listRefusedHosts } from "../../packages/server/src/link/index.ts";
import { openAuthority } from "../../packages/server/src/kernel/tls/certificate-authority.ts";
import { openFileKey } from "../../packages/agent/src/identity/identity.ts";
import type { RobotKey } from "../../packages/agent/src/identity/robot-key.ts";
import { RobotTime } from "../../packages/agent/src/robot-time.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { createTestDatabase, type TestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";
import { Relay, withHost } from "./relay.ts";

const LIMIT = { timeout: 240_000 };
const SIGNED_PATH = "/agent/signing?after=0";
const never = new AbortController().signal;

async function enrollmentKey(api: Client): Promise<string> {
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  return (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data.key ?? "";
}

/** Starts a server on an existing test database. */
function startServer(database: TestDatabase, args: readonly string[] = []): Promise<ServerProcess> {
  return ServerProcess.start({ nodes: 1, args, env: { DATABASE_URL: databaseUrl(database.connection) } });
}

/** Returns the traces that a robot has left on the server since its enrollment. */
async function traces(api: Client, name: string): Promise<unknown> {
  const robot = (await api.listRobots({})).items.find((one) => one.name === name);
  assert.ok(robot !== undefined, `${name} is enrolled`);
  const { items } = await api.listRobotTimeline({ params: { id: robot.id }, query: { limit: 200 } });
  const kinds = items.map(({ kind }) => kind).filter((kind) => kind !== "robot.enrolled");
  return { status: robot.status, last_seen_at: robot.last_seen_at, agent_version: robot.agent_version, kinds };
}

const NOTHING = { status: "never_connected", last_seen_at: null, agent_version: null, kinds: [] };

/** Sends a GET signed with a robot's key, like the agent. */
async function signedGet(server: string, to: { robot_id: string; key: RobotKey; ca?: string }) {
  const http = httpClient(systemClock, undefined, to.ca === undefined ? {} : { ca: to.ca });
  const fetcher = signedFetcher({ server, ...to, time: new RobotTime(systemClock), http });
  const answer = await fetcher.get(SIGNED_PATH, { signal: never });
  return { status: answer.status, text: await readText(answer, 100_000) };
}

/** Returns the bytes of a signed GET without a channel binding. */
async function signedBytes(key: RobotKey, robot_id: string, host: string): Promise<Buffer> {
  const request = { host, channel: "", method: "GET", path: SIGNED_PATH, at: Date.now(), nonce: "A".repeat(22) };
  const authorization = robotAuthorization(robot_id, request, await key.sign(httpRequestText(robot_id, request)));
  return Buffer.from(`GET ${SIGNED_PATH} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`);
}

/** Sends a request as bytes, and returns the status and body of the response. */
async function send(bytes: Buffer, to: { host: string; port: number }, tls?: ConnectionOptions): Promise<{ status: number; text: string }> {
  const socket = tls === undefined ? connect(to) : connectTls({ ...to, ...tls, servername: "localhost" });
  socket.write(Buffer.from(bytes.toString("latin1").replace(/^connection: .*$/im, "Connection: close"), "latin1"));
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}

test("a man in the middle with a trusted certificate cannot relay a robot's connection or requests", LIMIT, async (t) => {
  const database = await createTestDatabase();
  t.after(() => database.drop());
  await using server = await startServer(database, ["--tls", "auto"]);
  const { api } = await server.org("Relayed");
  const ca = server.ca!;
  const key = await enrollmentKey(api);
  const to = { host: "127.0.0.1", port: Number(new URL(server.url).port) };
  const pair = await (await openAuthority(server.data, new Date())).issue(["localhost", "127.0.0.1"], new Date());
  await using relay = await Relay.start({ host: "127.0.0.1", to, pair, ca });
  const url = `https://localhost:${relay.port}`;
  const place = mkdtempSync(path.join(tmpdir(), "roamfleet-relay-"));
  try {
    const ca_file = path.join(place, "ca.pem");
    writeFileSync(ca_file, ca);
    // The enrollment is not signed, so the relay can forward it. It uses a host name that the real server accepts too.
    await using robot = new AgentProcess({ url, key, name: "cart-1", args: ["--ca-file", ca_file] });
    await robot.program.until("the refusal", () => robot.program.output.includes("another TLS channel"));
    assert.deepEqual(await traces(api, "cart-1"), NOTHING);
    // The same robot, address and host as before, but the relay does not terminate TLS.
    relay.is_network = true;
    relay.cut();
    await robot.program.stop();
    robot.restart();
    await robot.program.until("the link", () => robot.program.output.includes("link is up"));
    await robot.program.stop();

    const own = openFileKey(place);
    const { robot_id } = (await api.enrollRobot({ body: { key, public_key: own.public_key } })).data;
    assert.equal((await signedGet(url, { robot_id, key: own, ca })).status, 200);
    relay.is_network = false;
    const relayed = await signedGet(url, { robot_id, key: own, ca });
    assert.deepEqual([relayed.status, /another TLS channel/.test(relayed.text)], [401, true], relayed.text);
    const request = relay.heard.at(-1)!;
    assert.match(request.toString("latin1"), /RobotSignature/);
    for (const again of [request, request, withHost(request, `127.0.0.1:${to.port}`)])
      assert.equal((await send(again, to, { ca })).status, 401);
    // TLS below 1.3 has no channel binding, and a signature without one would be valid on every connection.
    const unbound = await signedBytes(own, robot_id, `127.0.0.1:${to.port}`);
    const old = await send(unbound, to, { ca, maxVersion: "TLSv1.2" });
    assert.deepEqual([old.status, /TLS 1\.3 is required/.test(old.text)], [401, true], old.text);
    // The relayed signatures do not count as used: the robot itself is accepted.
    relay.is_network = true;
    assert.equal((await signedGet(url, { robot_id, key: own, ca })).status, 200);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
});

test("without TLS, a server at another address cannot relay a robot's connection or requests", LIMIT, async () => {
  await using database = await createTestDatabase();
  await using server = await startServer(database);
  const { api } = await server.org("Relayed plain");
  const key = await enrollmentKey(api);
  const to = { host: "127.0.0.1", port: Number(new URL(server.url).port) };
  // Another port of the server's address may be a port mapping, so it is accepted. Another address means another server.
  await using mapping = await Relay.start({ host: "127.0.0.1", to });
  await using relay = await Relay.start({ host: "127.0.0.2", to });
  const [mapped, foreign] = [`http://127.0.0.1:${mapping.port}`, `http://127.0.0.2:${relay.port}`];
  await using robot = new AgentProcess({ url: foreign, key, name: "cart-1" });
  await robot.program.until("the refusal", () => robot.program.output.includes("wrong_host"));
  assert.match(
    robot.program.output,
    /is for the host 127\.0\.0\.2:\d+, and this server answers to 127\.0\.0\.1, localhost, ::1: .* --host-name/,
  );
  assert.deepEqual(await traces(api, "cart-1"), NOTHING);
  relay.host_header = `127.0.0.1:${to.port}`;
  await robot.program.stop();
  robot.restart();
  await robot.program.until("the refusal of the other host", () => robot.program.output.includes("bad_signature"));
  assert.deepEqual(await traces(api, "cart-1"), NOTHING);
  await robot.program.stop();

  const place = mkdtempSync(path.join(tmpdir(), "roamfleet-relay-"));
  try {
    const own = openFileKey(place);
    const { robot_id } = (await api.enrollRobot({ body: { key, public_key: own.public_key } })).data;
    assert.equal((await signedGet(mapped, { robot_id, key: own })).status, 200);
    const spent = mapping.heard.at(-1)!;
    const twice = await send(spent, to);
    assert.deepEqual([twice.status, /was used before/.test(twice.text)], [401, true], twice.text);
    relay.host_header = undefined;
    const relayed = await signedGet(foreign, { robot_id, key: own });
    assert.deepEqual([relayed.status, /--host-name/.test(relayed.text)], [401, true], relayed.text);
    const request = relay.heard.at(-1)!;
    for (const again of [request, withHost(request, `127.0.0.1:${to.port}`)]) assert.equal((await send(again, to)).status, 401);
    // The server stores the refusal for `roamfleet doctor`.
    const db = await database.connect();
    assert.deepEqual(await listRefusedHosts(db, new Date(0)), [`127.0.0.2:${relay.port}`]);
    // Sign as earlier agents do, without a channel binding.
    const earlier = await send(Buffer.from(spent.toString("latin1").replace(/(RobotSignature \S+:\d+:[^:]+):[^:]*:/, "$1:"), "latin1"), to);
    assert.deepEqual([earlier.status, /upgrade the agent/.test(earlier.text)], [401, true], earlier.text);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
});
