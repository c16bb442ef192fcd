import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { startFeaturePlane } from "../features/testing/feature-plane.ts";
import type { Http } from "./http.ts";

const TIMEOUT = { timeout: 120_000 };

/** Starts a server with a route that reads a stream and routes that answer immediately. */
async function listen() {
  let http: Http | undefined;
  const rig = await startFeaturePlane([
    (of) => {
      http = of;
      of.streams.put("/stream", { config: { streams: true } }, (request) => request.raw.toArray());
      of.json.post("/json", (request) => Promise.resolve(request.body));
      of.json.get("/plain", () => Promise.resolve({ ok: true }));
    },
  ]);
  if (http === undefined) throw new Error("no http");
  const { server } = http;
  return {
    rig,
    open: async (
      text: string,
    ): Promise<{ socket: Socket; all: Promise<string>; received: () => string; send: (text: string) => Promise<void> }> => {
      const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
      await once(socket, "connect");
      let received = "";
      socket.setEncoding("utf8").on("data", (chunk) => (received += chunk));
      socket.on("error", () => {});
      const request = once(server, "request") as Promise<[IncomingMessage]>;
      socket.write(text);
      const [{ socket: peer }] = await request;
      const send = async (more: string): Promise<void> => {
        const wanted = peer.bytesRead + more.length;
        socket.write(more);
        await until("what was sent to be read", () => peer.bytesRead >= wanted, { poll_ms: 1 });
      };
      return { socket, send, received: () => received, all: once(socket, "close").then(() => received) };
    },
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

test("returns 408 for a JSON body that does not arrive in time, even if bytes still arrive", TIMEOUT, async () => {
  await using server = await listen();
  const { send, all } = await server.open(
    "POST /json HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
  );
  for (let second = 0; second < 7; second += 1) {
    await server.rig.clock.advance({ seconds: 1 });
    await send(" ");
  }
  await server.rig.clock.advance({ seconds: 2 });
  assert.match(await all, /^HTTP\/1\.1 408 [\s\S]*"http_error"/);
});

test("a JSON body gets additional time for the bytes that have arrived", TIMEOUT, async () => {
  await using server = await listen();
  const text = JSON.stringify("x".repeat(90_000));
  const { send, all } = await server.open(
    `POST /json HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n`,
  );
  for (let at = 0; at < text.length; at += 30_000) {
    await send(text.slice(at, at + 30_000));
    await server.rig.clock.advance({ seconds: 4 });
  }
  assert.match(await all, /^HTTP\/1\.1 200 /);
});

test("aborts an upload only when it stops or falls below the minimum rate", TIMEOUT, async () => {
  for (const ending of ["drips", "stops"]) {
    await using server = await listen();
    const { send, all, received } = await server.open("PUT /stream HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n");
    for (let minute = 0; minute < 5; minute += 1) {
      await send("x".repeat(9_000));
      await server.rig.clock.advance({ seconds: 9 });
    }
    await send("x".repeat(9_000));
    for (let second = 0; second < 9; second += 1) {
      await server.rig.clock.advance({ seconds: 1 });
      if (ending === "drips") await send("x");
    }
    assert.equal(received(), "");
    await server.rig.clock.advance({ seconds: 2 });
    assert.match(await all, /^HTTP\/1\.1 408 /);
  }
});

test("serves an upgrade to a protocol other than WebSocket as a plain request", TIMEOUT, async () => {
  await using server = await listen();
  const { all } = await server.open("GET /plain HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, close\r\nupgrade: h2c\r\n\r\n");
  assert.match(await all, /^HTTP\/1\.1 200 [\s\S]*"ok":true/);
});
