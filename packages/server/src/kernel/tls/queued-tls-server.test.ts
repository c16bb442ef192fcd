import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect as connectPlain, type Socket } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { connect, type TLSSocket } from "node:tls";
import { type Clock, SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { ROBOT_ALPN_PROTOCOLS } from "@roamfleet/protocol/link";
import { TLS_OPTIONS } from "./tls.ts";
import { TlsHandshakeQueue, RUNNING_MAX } from "./handshake-queue.ts";
import { openAuthority } from "./certificate-authority.ts";
import { QueuedTlsServer } from "./queued-tls-server.ts";
import { clientHello } from "./testing/client-hello.ts";

const LIMIT = { timeout: 120_000 };
/** Longer than any test, so that nothing times out. */
const NEVER_MS = 600_000;

interface Listening {
  port: number;
  queue: TlsHandshakeQueue;
  /** Returns the number of open connections of the server, with or without a handshake. */
  held: () => Promise<number>;
}

/** Starts an HTTPS server with queued handshakes. With a simulated clock, a handshake starts only when another ends. */
async function listen(
  t: TestContext,
  { clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" }), first_byte_ms = NEVER_MS }: { clock?: Clock; first_byte_ms?: number } = {},
): Promise<Listening> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-handshakes-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const now = new Date();
  const pair = await (await openAuthority(directory, now)).issue(["localhost"], now);
  const queue = new TlsHandshakeQueue({ clock, nextTurn: setImmediate });
  const options = { ...TLS_OPTIONS, ...pair, handshakeTimeout: NEVER_MS, queue, first_byte_ms };
  const server = new QueuedTlsServer(options, (request, response) => {
    response.end(request.url);
  });
  server.on("clientError", (_error, socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    queue.close();
    server.close();
    server.closeAllConnections();
  });
  const held = (): Promise<number> =>
    new Promise((resolve, reject) => server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))));
  return { port: (server.address() as AddressInfo).port, queue, held };
}

/** Opens a connection that sends these bytes and nothing else. */
function open(t: TestContext, port: number, bytes: Buffer | string = ""): Socket {
  const socket = connectPlain(port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.on("error", () => {});
  socket.resume();
  if (bytes.length > 0) socket.write(bytes);
  return socket;
}

/** Resolves when the socket is closed, also by a reset. */
const closed = (socket: Socket): Promise<void> => new Promise((resolve) => socket.once("close", () => resolve()));

/** Uses all handshake slots with clients that send only a ClientHello. */
async function takeAllPlaces(t: TestContext, { port, queue }: Listening): Promise<Socket[]> {
  const hello = await clientHello();
  const stuck = Array.from({ length: RUNNING_MAX }, () => open(t, port, hello));
  await until("all places to be taken", () => queue.running === RUNNING_MAX);
  return stuck;
}

function shakeHands(t: TestContext, port: number, ALPNProtocols: readonly string[] = ["http/1.1"]): TLSSocket {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: [...ALPNProtocols] });
  t.after(() => socket.destroy());
  return socket.on("error", () => {});
}

/** Connects a client and waits until it is queued. Its name is added to `shaken` after its handshake. */
async function enqueue(
  t: TestContext,
  { port, queue }: Listening,
  name: string,
  shaken: string[],
  protocols?: readonly string[],
): Promise<TLSSocket> {
  const before = queue.queued;
  const socket = shakeHands(t, port, protocols).once("secureConnect", () => shaken.push(name));
  await until(`${name} to be in queue`, () => queue.queued === before + 1);
  return socket;
}

/** Sends a request after the handshake. Returns the response body, which is the path. */
async function ask(socket: TLSSocket, url: string): Promise<string | undefined> {
  socket.write(`GET ${url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
  const answer = Buffer.concat(await socket.toArray()).toString("latin1");
  return answer.split("\r\n\r\n")[1];
}

test("serves HTTPS clients and frees their handshake slots", LIMIT, async (t) => {
  const { port, queue, held } = await listen(t);
  const answers = await Promise.all(["/a", "/b", "/c"].map((url) => ask(shakeHands(t, port), url)));
  assert.deepEqual(answers, ["/a", "/b", "/c"]);
  assert.deepEqual([queue.running, queue.queued], [0, 0]);
  await until("the server to hold none", async () => (await held()) === 0);
});

test("TLS clients above the limit wait, start in order and leave the queue when they disconnect", LIMIT, async (t) => {
  const server = await listen(t);
  const { queue, held } = server;
  const stuck = await takeAllPlaces(t, server);
  const shaken: string[] = [];
  const come = (name: string): Promise<TLSSocket> => enqueue(t, server, name, shaken);
  const first = await come("first");
  const second = await come("second");
  const third = await come("third");
  second.destroy();
  await until("the second to have left", () => queue.queued === 2);
  await until("the server to have let go of it", async () => (await held()) === RUNNING_MAX + 2);
  assert.deepEqual(shaken, []);
  stuck[0]!.destroy();
  // The third client gets the slot of the first when the handshake of the first ends.
  assert.deepEqual(await Promise.all([ask(first, "/first"), ask(third, "/third")]), ["/first", "/third"]);
  assert.deepEqual(shaken, ["first", "third"]);
});

test("a client that is no robot overtakes queued robots of the same network", LIMIT, async (t) => {
  const server = await listen(t);
  const stuck = await takeAllPlaces(t, server);
  const shaken: string[] = [];
  // The stuck clients are no robots, so the first of these starts is a robot's.
  const robots: TLSSocket[] = [];
  for (const name of ["robot 1", "robot 2"]) robots.push(await enqueue(t, server, name, shaken, ROBOT_ALPN_PROTOCOLS));
  const person = await enqueue(t, server, "person", shaken);
  stuck[0]!.destroy();
  const answers = await Promise.all([...robots, person].map((socket) => ask(socket, "/in")));
  assert.deepEqual(answers, ["/in", "/in", "/in"]);
  assert.deepEqual(shaken, ["robot 1", "person", "robot 2"]);
  assert.equal(robots[0]!.alpnProtocol, "http/1.1");
});

test("clients that stop during the TLS handshake do not block others", LIMIT, async (t) => {
  const server = await listen(t, { clock: systemClock });
  await takeAllPlaces(t, server);
  assert.equal(await ask(shakeHands(t, server.port), "/in"), "/in");
  assert.equal(server.queue.running, RUNNING_MAX);
});

test("disconnects a client that sends nothing, or too much data before its handshake starts", LIMIT, async (t) => {
  const quiet = await listen(t, { first_byte_ms: 200 });
  const silent = open(t, quiet.port);
  await closed(silent);
  assert.deepEqual([quiet.queue.running, quiet.queue.queued], [0, 0]);
  await until("the server to have let go of it", async () => (await quiet.held()) === 0);

  const server = await listen(t);
  const { port, queue, held } = server;
  await takeAllPlaces(t, server);
  const loud = open(t, port, "x");
  await until("it to be in queue", () => queue.queued === 1);
  loud.write(Buffer.alloc(1024 * 1024));
  await closed(loud);
  assert.equal(queue.queued, 0);
  await until("the server to have let go of it", async () => (await held()) === RUNNING_MAX);
});

test("a plain HTTP request to the TLS port is closed and frees its slot", LIMIT, async (t) => {
  const { port, queue, held } = await listen(t);
  await closed(open(t, port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
  await until("its place to be free", () => queue.running === 0);
  await until("the server to hold none", async () => (await held()) === 0);
});
