import assert from "node:assert/strict";
import { createServer, type Server, type Socket } from "node:net";
import { test } from "node:test";
import { SimulatedClock } from "@robofleet/clock";
import { connect } from "./connect.ts";

/** Takes connections and says nothing. Resolves with its address and what connects. */
async function silentServer(): Promise<{ port: number; came: Promise<Socket>; server: Server } & AsyncDisposable> {
  const { promise: came, resolve } = Promise.withResolvers<Socket>();
  const server = createServer((socket) => socket.on("error", () => {}).once("data", () => resolve(socket)));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  return { port, came, server, [Symbol.asyncDispose]: () => new Promise((closed) => server.close(() => closed())) };
}

const attempt = (server: string, clock: SimulatedClock) => {
  const ended: string[] = [];
  const attempted = connect({ server, clock, signal: new AbortController().signal, on_open: () => {} }).catch((error: unknown) => {
    ended.push((error as Error).message);
  });
  return { ended, attempted };
};

test("a server that takes the request and does not answer is given a minute, in which it may keep who connects in line", async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  await using silent = await silentServer();
  const { ended, attempted } = attempt(`http://127.0.0.1:${silent.port}`, clock);
  const socket = await silent.came;
  await clock.advance({ seconds: 59 });
  assert.deepEqual(ended, []);
  await clock.advance({ seconds: 1 });
  await attempted;
  assert.deepEqual(ended, ["no answer after 60 s"]);
  socket.destroy();
});

test("a server that does not shake hands is given a minute, in which others may come before", async () => {
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
