import assert from "node:assert/strict";
import { connect as connectTcp, createServer, type Server, type Socket } from "node:net";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { connect, type OpenSocket } from "./connect.ts";

/** Starts a server that accepts connections and sends nothing. `came` resolves with the first connection that sends data. */
async function silentServer(): Promise<{ port: number; came: Promise<Socket>; server: Server } & AsyncDisposable> {
  const { promise: came, resolve } = Promise.withResolvers<Socket>();
  const server = createServer((socket) => socket.on("error", () => {}).once("data", () => resolve(socket)));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  return { port, came, server, [Symbol.asyncDispose]: () => new Promise((closed) => server.close(() => closed())) };
}

const attempt = (server: string, clock: SimulatedClock, open_socket?: OpenSocket) => {
  const ended: string[] = [];
  const stopping = new AbortController();
  const attempted = connect({ server, clock, signal: stopping.signal, open_socket, on_open: () => {} }).catch((error: unknown) => {
    ended.push((error as Error).message);
  });
  return { ended, attempted, stopping };
};

test("a connection attempt times out after 60 s if the server does not answer", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  await using silent = await silentServer();
  const { ended, attempted } = attempt(`http://127.0.0.1:${silent.port}`, clock);
  const socket = await silent.came;
  await clock.advance({ seconds: 59 });
  assert.deepEqual(ended, []);
  await clock.advance({ seconds: 1 });
  await attempted;
  assert.deepEqual(ended, ["no response after 60 s"]);
  socket.destroy();
});

test("a connection attempt times out after 60 s if the TLS handshake does not start", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  await using silent = await silentServer();
  const { ended, attempted } = attempt(`https://127.0.0.1:${silent.port}`, clock);
  const socket = await silent.came;
  await clock.advance({ seconds: 59 });
  assert.deepEqual(ended, []);
  await clock.advance({ seconds: 1 });
  await attempted;
  assert.deepEqual(ended, ["no TLS handshake after 60 s"]);
  socket.destroy();
});

test("the connect timeout starts only when a queued robot gets its socket", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  await using silent = await silentServer();
  let open = (): void => assert.fail("no socket was asked for");
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  const { ended, attempted } = attempt(`http://127.0.0.1:${silent.port}`, clock, ({ host, port }, opened) => {
    open = () => opened(null, connectTcp({ host, port }));
    resolve();
  });
  await asked;
  await clock.advance({ minutes: 10 });
  assert.deepEqual(ended, []);
  open();
  const socket = await silent.came;
  await clock.advance({ seconds: 60 });
  await attempted;
  assert.deepEqual(ended, ["no response after 60 s"]);
  socket.destroy();
});

test("an agent stopped while it is queued for a socket destroys a socket that arrives later", { timeout: 120_000 }, async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  await using silent = await silentServer();
  const { promise: asked, resolve: ask } = Promise.withResolvers<{ hand: Parameters<OpenSocket>[1]; signal: AbortSignal }>();
  const { ended, attempted, stopping } = attempt(`http://127.0.0.1:${silent.port}`, clock, (_, hand, signal) => ask({ hand, signal }));
  const { hand, signal } = await asked;
  stopping.abort();
  await attempted;
  assert.deepEqual(ended, ["the agent is stopping"]);
  assert.ok(signal.aborted);
  const late = connectTcp({ host: "127.0.0.1", port: silent.port }).on("error", () => {});
  const closed = new Promise((resolve) => late.once("close", resolve));
  hand(null, late);
  await closed;
});
