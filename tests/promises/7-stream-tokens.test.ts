import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { connect as connectTls } from "node:tls";
import { CSRF_HEADER } from "@roamfleet/protocol";
import type { StreamName } from "@roamfleet/protocol/paths";
import { type Client, createClient } from "@roamfleet/sdk";
import { WebSocket } from "ws";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { OpenStream, type StreamCredentials } from "../harness/open-stream.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";
import { STREAM_NAMES, streamTarget } from "../harness/stream-target.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { RfHome } from "../processes/rf.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 600_000 };
/** Secrets that no server issued. The test uses them in URLs too. */
const UNKNOWN = `rf_user_${"5ec2e7".repeat(10)}5ec2`;
const UNKNOWN_TICKET = `rf_ticket_${"7e1c37".repeat(10)}7e1c`;
const EVIL = "https://evil.example";

type Outcome = { open: boolean; status: number };

/** Opens a WebSocket, waits until it is open or refused, and closes it. */
async function attempt(url: string, ca: string | undefined, headers: Record<string, string> = {}): Promise<Outcome> {
  const socket = new WebSocket(url, { ...(ca === undefined ? {} : { ca }), headers });
  const outcome = await new Promise<Outcome>((resolve, reject) => {
    socket.on("open", () => resolve({ open: true, status: 101 }));
    socket.on("unexpected-response", (_request, response) => {
      response.resume();
      resolve({ open: false, status: response.statusCode ?? 0 });
    });
    socket.on("error", reject);
  });
  const closed = outcome.open ? once(socket, "close") : undefined;
  socket.terminate();
  await closed;
  return outcome;
}

/** Files below a directory that contain one of the words. */
function filesWith(directory: string, words: readonly string[]): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => {
      const bytes = statSync(file, { throwIfNoEntry: false }) === undefined ? Buffer.alloc(0) : readFileSync(file);
      return words.some((word) => bytes.includes(word));
    });
}

interface Options {
  args: string[];
  env?: Record<string, string>;
}

/** A server with verbose logging, and a real robot with data for all of its streams. */
class Scene implements AsyncDisposable {
  readonly server: ServerProcess;
  readonly robot: AgentProcess;
  readonly api: Client;
  readonly token: string;
  readonly id: string;
  readonly around: RobotSurroundings;
  /** Every secret that was in a URL. */
  readonly words: Set<string>;
  opened = 0;
  refused = 0;

  private constructor(
    server: ServerProcess,
    robot: AgentProcess,
    org: { api: Client; token: string },
    id: string,
    around: RobotSurroundings,
  ) {
    this.server = server;
    this.robot = robot;
    this.api = org.api;
    this.token = org.token;
    this.id = id;
    this.around = around;
    this.words = new Set([UNKNOWN, UNKNOWN_TICKET, org.token]);
  }

  static async start(t: TestContext, { args, env = {} }: Options): Promise<Scene> {
    const around = await RobotSurroundings.start(t);
    const limits = ["--limit", "unknown_requests_per_minute=1000000"];
    const server = await ServerProcess.start({ args: ["--log-level", "trace", ...limits, ...args], env });
    const org = await server.org("Acme");
    const site_id = (await org.api.createSite({ body: { name: "Hall" } })).data.id;
    const fleet_id = (await org.api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const key = (await org.api.createEnrollmentKey({ body: { site_id, fleet_id } })).data.key ?? "";
    const trust = server.ca === undefined ? [] : ["--trust-on-first-use"];
    const robot = new AgentProcess({ url: server.address, key, name: "cart", args: [...trust, "--config", around.writeConfig()] });
    const { id } = await robot.program.until("the robot", async () =>
      (await org.api.listRobots()).items.find(({ status }) => status === "online"),
    );
    return new Scene(server, robot, org, id, around);
  }

  get url(): string {
    return this.server.address;
  }

  /** The path and query of a stream that would be accepted. */
  target(stream: StreamName, query: Record<string, string>, robot_id = this.id): string {
    return this.url.replace(/^http/, "ws") + streamTarget(stream, robot_id, { ...this.around.query(stream), ...query });
  }

  /** Tries to open a stream, and counts whether it was opened or refused. */
  async attempt(url: string, headers: Record<string, string> = {}): Promise<Outcome> {
    const outcome = await attempt(url, this.server.ca, headers);
    if (outcome.open) this.opened += 1;
    else this.refused += 1;
    return outcome;
  }

  /** Opens a stream, waits for data, and closes it. */
  async watch(stream: StreamName, credentials: StreamCredentials): Promise<void> {
    const open = await OpenStream.open(this.url, stream, this.id, this.around, { ca: this.server.ca, ...credentials });
    await open.round();
    await open.end();
    this.opened += 1;
  }

  /** Sends a request without a WebSocket upgrade. */
  async refuse(target: string): Promise<void> {
    const { status } = await createClient({ base_url: this.url, ca: this.server.ca, retries: 0 }).request("GET", target);
    assert.ok(status >= 400 && status < 500, `${status} ${target.slice(0, 60)}`);
    this.refused += 1;
  }

  async ticket(stream: StreamName, headers?: Record<string, string>): Promise<string> {
    const body = { robot_id: this.id, stream };
    const anonymous = createClient({ base_url: this.url, ca: this.server.ca });
    const answer =
      headers === undefined
        ? this.api.createStreamTicket({ body })
        : anonymous.request("POST", "/api/stream-tickets", { body, headers }).then((reply) => reply.json());
    const { ticket } = ((await answer) as { data: { ticket: string } }).data;
    this.words.add(ticket);
    return ticket;
  }

  /** Stops server and robot, and searches all that they have written for the secrets. */
  async search(): Promise<void> {
    const { server, robot } = this;
    const words = [...this.words];
    const headers = { "x-service-admin-token": ADMIN_TOKEN };
    const metrics = await (await createClient({ base_url: this.url, ca: server.ca }).request("GET", "/metrics", { headers })).text();
    assert.match(metrics, /roamfleet_http_requests_total/);
    const audit = await (await this.api.request("GET", "/api/audit/export")).text();
    assert.ok(audit.includes("stream.opened"), "the audit contains streams");
    await robot.program.stop();
    await server.program.stop();
    for (const [i, word] of words.entries()) {
      for (const [where, text] of Object.entries({
        "server's log": server.program.output,
        "robot's log": robot.program.output,
        metrics,
        audit,
      }))
        assert.ok(!text.includes(word), `secret ${i} of ${words.length} is in the ${where}`);
    }
    assert.deepEqual(filesWith(server.data, words), []);
    assert.deepEqual(filesWith(robot.state, words), []);
    assert.ok(server.program.output.split("\n").length > 3, "the server logged");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.robot[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
  }
}

/** Sends bytes that no well-behaved client sends, reads the response, and disconnects. */
async function sendRaw(scene: Scene, bytes: string, from?: string): Promise<string> {
  const { hostname, port } = new URL(scene.url);
  const to = { host: hostname, port: Number(port), ...(from === undefined ? {} : { localAddress: from }) };
  const socket = scene.server.ca === undefined ? connectTcp(to) : connectTls({ ...to, ca: scene.server.ca });
  let said = "";
  socket.on("data", (chunk: Buffer) => (said += chunk.toString("latin1")));
  socket.on("error", () => {});
  socket.write(bytes);
  // The server closes a connection after an error response. Connections on which it expects more data are closed by a timeout.
  await new Promise((resolve) => socket.once("close", resolve).once("data", resolve));
  socket.destroy();
  scene.refused += 1;
  return said;
}

const upgrade = (target: string, lines: readonly string[] = []): string =>
  [
    `GET ${target} HTTP/1.1`,
    "Host: fleet.test",
    ...(lines.some((line) => line.startsWith("Connection")) ? [] : ["Connection: Upgrade", "Upgrade: websocket"]),
    ...lines,
    "",
    "",
  ].join("\r\n");

const HANDSHAKE = ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];

/** Every way in which an upgrade fails, with the secret in its URL. */
async function failToUpgrade(scene: Scene, path: string, name: "token" | "ticket", secret: string): Promise<void> {
  const target = `${path}${path.includes("?") ? "&" : "?"}${name}=${secret}`;
  const broken: [string, number][] = [
    [upgrade(target, ["Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]), 400],
    [upgrade(target, ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: short"]), 400],
    [upgrade(target, [...HANDSHAKE, "Sec-WebSocket-Protocol: a,,b"]), 400],
    [upgrade(`${target}&${secret}=1`, HANDSHAKE), 400],
    [upgrade(`${target}&${name}=${secret}`, HANDSHAKE), 400],
    [upgrade(`${target}&token=${secret}&ticket=${secret}`, HANDSHAKE), 400],
    [upgrade(`/api/nothing?${name}=${secret}`, HANDSHAKE), 404],
    [upgrade(`//${secret}?${name}=${secret}`, HANDSHAKE), 404],
    [upgrade(target, HANDSHAKE).replace("GET", "POST"), 405],
    [upgrade(target, [...HANDSHAKE, "no header at all"]), 400],
    [upgrade(target, [...HANDSHAKE, `X-Long: ${"x".repeat(100_000)}`]), 431],
    [upgrade(target, ["Connection: close"]), 426],
    [`GET ${target} HTTP/9.9\r\n\r\n`, 400],
    [`\u0000${target}\r\n\r\n`, 400],
  ];
  for (const [bytes, status] of broken) {
    const said = await sendRaw(scene, bytes);
    const is = Number(/^HTTP\/1\.1 (\d{3})/.exec(said)?.[1]);
    // An invalid secret is refused before other errors are detected.
    assert.ok(is === status || is === 401, `${is} instead of ${status}: ${bytes.replaceAll(secret, "…").slice(0, 80)}`);
    assert.ok(!said.includes(secret), `the answer to ${bytes.replaceAll(secret, "…").slice(0, 80)} repeats the secret`);
  }
}

test("tokens and tickets in stream URLs appear in no log, audit entry, file or metric", LIMIT, async (t) => {
  const rounds = promiseSize({ test: 1, full: 40 });
  await using scene = await Scene.start(t, { args: ["--tls", "auto"] });
  const { server, token, id } = scene;
  const signed_in = await signIn(scene);
  const own = { cookie: signed_in.cookie ?? "", origin: new URL(scene.url).origin };
  const expect = async (status: number, url: string, headers?: Record<string, string>): Promise<void> =>
    assert.deepEqual(await scene.attempt(url, headers), { open: status === 101, status }, url.split("?")[0]);
  for (let round = 0; round < rounds; round += 1) {
    for (const stream of STREAM_NAMES) {
      await scene.watch(stream, { query: { token } });
      await expect(404, scene.target(stream, { token }, "rob_none"));
      await expect(400, scene.target(stream, { token, unknown: "1" }));
      await expect(401, scene.target(stream, { token: UNKNOWN }));
      await expect(401, scene.target(stream, { ticket: UNKNOWN_TICKET }));
      await expect(401, scene.target(stream, { token: own.cookie.split("=")[1] ?? "" }));
      for (const by of [undefined, signed_in]) {
        const ticket = await scene.ticket(stream, by);
        await scene.watch(stream, { query: { ticket } });
        await expect(401, scene.target(stream, { ticket }));
        const other = STREAM_NAMES[(STREAM_NAMES.indexOf(stream) + 1) % STREAM_NAMES.length] ?? "logs";
        await expect(401, scene.target(other, { ticket: await scene.ticket(stream, by) }));
      }
      // A page of another site has the user's cookie, but neither a token nor the means to create a ticket.
      await expect(403, scene.target(stream, { ticket: await scene.ticket(stream, signed_in) }), { origin: EVIL });
      await expect(401, scene.target(stream, {}), {
        origin: EVIL,
        cookie: `session=${token}; roamfleet_session=${token}; token=${token}`,
      });
      await expect(403, scene.target(stream, {}), { ...own, origin: EVIL });
      await expect(403, scene.target(stream, {}), { cookie: own.cookie });
      await expect(101, scene.target(stream, {}), own);
    }
    for (const secret of [token, UNKNOWN]) {
      for (const target of [
        `/api/robots/${id}/logs?token=${secret}`,
        `/api/robots/%ff?token=${secret}`,
        `/api/robots/${id}/logs?x=${"x".repeat(9_000)}&token=${secret}`,
        `/agent/ws?token=${secret}`,
      ])
        await scene.refuse(target);
    }
    await failToUpgrade(scene, `/api/robots/${id}/logs/ws`, "token", token);
    await failToUpgrade(scene, `/api/robots/${id}/shell/ws`, "ticket", await scene.ticket("shell"));
  }

  await using home = await RfHome.make();
  const env = { ROAMFLEET_TOKEN: UNKNOWN, ROAMFLEET_BASE_URL: server.address, ROAMFLEET_DEBUG: "1" };
  const followed = await home.run(["robots", "logs", id, "--follow"], { env });
  assert.notEqual(followed.code, 0);
  assert.ok(!(followed.stdout + followed.stderr).includes(UNKNOWN), "rf shows no token");
  await scene.search();
  provePromise(
    t,
    7,
    `${STREAM_NAMES.length} kinds of streams of a real robot, log level trace: ${scene.opened} opened and ${scene.refused} requests refused with ${scene.words.size} ` +
      `tokens and tickets in the URL, 0 hits in the logs of server and agent, the audit, the metrics, the database and every other file; each ticket once and for its stream only; cookies and ` +
      `tickets of sessions from another site's page: refused`,
  );
});

test("tokens and tickets in stream URLs are not logged behind a proxy or when bypassing it", LIMIT, async (t) => {
  await using scene = await Scene.start(t, { args: ["--behind-proxy", "127.0.0.1"], env: { SERVICE_ADMIN_TOKEN: ADMIN_TOKEN } });
  const { token } = scene;
  for (const stream of STREAM_NAMES) {
    const ticket = await scene.ticket(stream);
    const target = streamTarget(stream, scene.id, { ...scene.around.query(stream), ticket });
    // Requests that bypass the proxy are refused, whatever their URL. The proxy adds headers that contain the URL of the page.
    assert.match(await sendRaw(scene, upgrade(target, HANDSHAKE), "127.0.0.2"), /^HTTP\/1\.1 403 /);
    assert.match(await sendRaw(scene, upgrade(target, ["Connection: close"]), "127.0.0.2"), /^HTTP\/1\.1 403 /);
    const referer = { referer: `${scene.url}${target}`, "x-original-url": target, "x-forwarded-for": `${ticket}, 192.0.2.1` };
    await scene.watch(stream, { query: { ticket }, headers: referer });
    assert.deepEqual(await scene.attempt(scene.target(stream, { ticket }), referer), { open: false, status: 401 });
    assert.equal((await scene.attempt(scene.target(stream, { token }, "rob_none"), { forwarded: `for=${token}` })).open, false);
    // A proxy that aborts: half a request, half an upgrade, and a connection that is cut immediately after opening.
    const whole = upgrade(streamTarget(stream, scene.id, { ...scene.around.query(stream), token }), HANDSHAKE);
    await cut(scene, whole.slice(0, -2));
    await cut(scene, whole);
    await cut(scene, `${whole}\u00ff\u00ff\u00ff\u00ff${token}`);
  }
  await failToUpgrade(scene, `/api/robots/${scene.id}/logs/ws`, "token", token);
  await scene.search();
});

/** Disconnects as soon as the bytes are sent. */
async function cut(scene: Scene, bytes: string): Promise<void> {
  const { hostname, port } = new URL(scene.url);
  const socket = connectTcp({ host: hostname, port: Number(port) });
  // The server may disconnect first.
  socket.on("error", () => {});
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
  socket.resetAndDestroy();
  scene.refused += 1;
}

/** Returns the headers of a page that signed in with the token. */
async function signIn(scene: Scene): Promise<Record<string, string>> {
  const { server, token, url } = scene;
  const answer = await createClient({ base_url: url, ca: server.ca, token }).request("POST", "/api/auth/session");
  assert.equal(answer.status, 201);
  const { csrf_token } = ((await answer.json()) as { data: { csrf_token: string } }).data;
  const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  assert.match(cookie, /^__Host-roamfleet_session=rf_session_/);
  scene.words.add(cookie.split("=")[1] ?? "").add(csrf_token);
  return { cookie, origin: new URL(url).origin, [CSRF_HEADER]: csrf_token };
}

test("a ticket for any kind of stream expires after 30 s", LIMIT, async (t) => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const robot = await plane.default_org.enrollRobot();
  const ticketsOf = (): Promise<string[]> =>
    Promise.all(
      STREAM_NAMES.map(async (stream) => (await plane.api.createStreamTicket({ body: { robot_id: robot.id, stream } })).data.ticket ?? ""),
    );
  const statuses = async (tickets: readonly string[]): Promise<number[]> => {
    const found: number[] = [];
    for (const [i, name] of STREAM_NAMES.entries())
      found.push(
        (await attempt(plane.url.replace("http", "ws") + streamTarget(name, robot.id, { ticket: tickets[i] ?? "" }), undefined)).status,
      );
    return found;
  };
  const [in_time, late] = [await ticketsOf(), await ticketsOf()];
  await plane.advance({ milliseconds: 29_999 });
  assert.deepEqual(
    await statuses(in_time),
    STREAM_NAMES.map(() => 101),
  );
  await plane.advance({ milliseconds: 1 });
  assert.deepEqual(
    await statuses(late),
    STREAM_NAMES.map(() => 401),
  );
  provePromise(t, 7, `tickets of ${STREAM_NAMES.length} kinds of streams: open a millisecond before 30 s are over, refused at 30 s`);
});
