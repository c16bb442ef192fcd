import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { ConnectionOpener, OPENING_MAX } from "./connection-opener.ts";

const MORE = 10;
const { signal } = new AbortController();

test("limits concurrent TLS handshakes and starts another when a handshake ends", { timeout: 240_000 }, async (t) => {
  const accepted: Socket[] = [];
  const server = createServer((socket) => accepted.push(socket.on("error", () => {})));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const { port } = server.address() as { port: number };
  const opening = new ConnectionOpener(undefined);
  const opened: Socket[] = [];
  t.after(() => opened.forEach((socket) => socket.destroy()));
  for (let i = 0; i < OPENING_MAX + MORE; i += 1)
    opening.open({ host: "127.0.0.1", port, is_secure: true }, (_, socket) => opened.push(socket), signal);
  assert.equal(opened.length, OPENING_MAX);
  await until("the server to accept them", () => accepted.length === OPENING_MAX);
  for (const socket of accepted.slice(0, MORE)) socket.destroy();
  await until("the same number of further connections", () => accepted.length === OPENING_MAX + MORE);
  assert.equal(opened.length, OPENING_MAX + MORE);
});

test("connections without TLS occupy no handshake slot after they connect", { timeout: 240_000 }, async (t) => {
  const server = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  const opening = new ConnectionOpener(undefined);
  const opened: Socket[] = [];
  t.after(() => {
    opened.forEach((socket) => socket.destroy());
    server.close();
  });
  for (let i = 0; i < 2 * OPENING_MAX; i += 1)
    opening.open({ host: "127.0.0.1", port, is_secure: false }, (_, socket) => opened.push(socket), signal);
  await until("all are open", () => opened.length === 2 * OPENING_MAX && opened.every((socket) => !socket.connecting));
});

test("opens no connection for a robot that stopped while it was queued", { timeout: 240_000 }, async (t) => {
  const server = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const { port } = server.address() as { port: number };
  const opening = new ConnectionOpener(undefined);
  const opened: { who: string; socket: Socket }[] = [];
  t.after(() => opened.forEach(({ socket }) => socket.destroy()));
  const ask = (who: string, asked: AbortSignal): void =>
    opening.open({ host: "127.0.0.1", port, is_secure: true }, (_, socket) => opened.push({ who, socket }), asked);
  for (let i = 0; i < OPENING_MAX; i += 1) ask("first", signal);
  const stopping = new AbortController();
  for (let i = 0; i < MORE; i += 1) ask("stopped", stopping.signal);
  ask("last", signal);
  stopping.abort();
  opened[0]!.socket.destroy();
  await until("the last connection", () => opened.at(-1)?.who === "last");
  assert.equal(opened.length, OPENING_MAX + 1);
});
