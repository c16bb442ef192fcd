import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import type { TLSSocket } from "node:tls";
import { systemClock } from "@roamfleet/clock";
import { LINK_SUBPROTOCOL } from "@roamfleet/protocol/link";
import { WebSocketServer, type WebSocket } from "ws";
import { openAuthority } from "../../../server/src/kernel/tls/certificate-authority.ts";
import { TLS_OPTIONS } from "../../../server/src/kernel/tls/tls.ts";
import { connect, type TlsSession } from "./connect.ts";

const LIMIT = { timeout: 60_000 };

interface Listening {
  port: number;
  ca: string;
  /** For each connection, whether it resumed a TLS session. */
  resumed: boolean[];
  /** Replaces the server by one that knows no session, at the same port. */
  restart: () => Promise<void>;
}

async function listen(t: TestContext): Promise<Listening> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-session-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const now = new Date();
  const authority = await openAuthority(directory, now);
  const pair = await authority.issue(["localhost"], now);
  const resumed: boolean[] = [];
  let server: Server;
  const start = async (port: number): Promise<void> => {
    server = createServer({ ...TLS_OPTIONS, ...pair });
    const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => LINK_SUBPROTOCOL });
    server.on("upgrade", (request, socket, head) => sockets.handleUpgrade(request, socket, head, () => {}));
    server.on("secureConnection", (socket: TLSSocket) => resumed.push(socket.isSessionReused()));
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const stop = async (): Promise<void> => {
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
  await start(0);
  t.after(stop);
  const { port } = server!.address() as AddressInfo;
  return { port, ca: authority.pem, resumed, restart: () => stop().then(() => start(port)) };
}

/** Connects once, and closes the connection when the server has sent its session. */
async function connectOnce({ port, ca }: Listening, tls_session: TlsSession): Promise<void> {
  let opened: WebSocket | undefined;
  const signal = new AbortController().signal;
  await connect({
    server: `https://localhost:${port}`,
    ca,
    clock: systemClock,
    signal,
    tls_session,
    on_open: (socket) => (opened = socket),
  });
  // The session arrives before the response to the upgrade.
  opened!.terminate();
  await once(opened!, "close");
}

test("a robot that reconnects resumes its TLS session, and a server that does not know it makes a full handshake", LIMIT, async (t) => {
  const server = await listen(t);
  const tls_session: TlsSession = {};
  for (let i = 0; i < 3; i += 1) await connectOnce(server, tls_session);
  assert.deepEqual(server.resumed, [false, true, true]);
  await server.restart();
  await connectOnce(server, tls_session);
  await connectOnce(server, tls_session);
  assert.deepEqual(server.resumed.slice(3), [false, true]);
});

test("keeps the session while the server is unreachable, but not after a handshake that failed", LIMIT, async (t) => {
  const server = await listen(t);
  const tls_session: TlsSession = {};
  await connectOnce(server, tls_session);
  const closed = createTcpServer();
  closed.listen(0, "127.0.0.1");
  await once(closed, "listening");
  const { port } = closed.address() as AddressInfo;
  closed.on("connection", (socket) => socket.once("data", () => socket.resetAndDestroy()));
  const failed = { ...tls_session };
  await assert.rejects(connectOnce({ ...server, port }, failed));
  assert.equal(failed.resumable, undefined);
  closed.close();
  await once(closed, "close");
  await assert.rejects(connectOnce({ ...server, port }, tls_session), /ECONNREFUSED/);
  assert.notEqual(tls_session.resumable, undefined);
  await connectOnce(server, tls_session);
  assert.deepEqual(server.resumed, [false, true]);
});
