import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { type WebSocket, WebSocketServer } from "ws";
import { openConnection } from "./connection.ts";
import { createClient, type Stream } from "./index.ts";
import { openStream } from "./stream.ts";

async function withPeer(
  accept: (socket: WebSocket, request: IncomingMessage) => void,
  work: (base_url: string, server: Server) => Promise<void>,
): Promise<void> {
  const server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    if (request.url!.includes("rob_refused")) {
      const body = '{"error":{"code":"not_found","message":"robot rob_refused does not exist"}}';
      socket.end(`HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    } else sockets.handleUpgrade(request, socket, head, (open) => accept(open, request));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
  } finally {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  }
}

async function read(stream: Stream): Promise<string[]> {
  const texts: string[] = [];
  for await (const frame of stream) texts.push(frame.data.toString());
  return texts;
}

test("a stream yields every frame and then its close code", { timeout: 120_000 }, async () => {
  let asked: unknown;
  const accept = (socket: WebSocket, { url, headers }: IncomingMessage): void => {
    asked = { url, authorization: headers.authorization };
    // These frames exceed the buffer for a slow reader, so the socket pauses and no frame is lost.
    for (let i = 0; i < 5_000; i += 1) socket.send(String(i));
    socket.close(4409, "agent offline");
  };
  await withPeer(accept, async (base_url) => {
    const stream = await createClient({ base_url, token: "rf_user_a", org_id: "org_1" }).stream("logs", { robot_id: "rob_1" });
    const texts = await read(stream);
    assert.equal(texts.length, 5_000);
    assert.deepEqual([texts[0], texts.at(-1)], ["0", "4999"]);
    assert.deepEqual(stream.ending, { code: 4409, reason: "agent offline" });
    assert.deepEqual(asked, { url: "/api/robots/rob_1/logs/ws?org_id=org_1", authorization: "Bearer rf_user_a" });
  });
});

test("opening a stream throws an ApiError if the server refuses the upgrade", { timeout: 120_000 }, async () => {
  await withPeer(
    () => {},
    async (base_url) => {
      await assert.rejects(createClient({ base_url }).stream("logs", { robot_id: "rob_refused" }), {
        name: "ApiError",
        status: 404,
        code: "not_found",
      });
    },
  );
});

test("a stream that is aborted before its socket is created opens no socket", { timeout: 120_000 }, async () => {
  await withPeer(
    () => assert.fail("it was opened"),
    async (base_url) => {
      const off = new AbortController();
      const opening = openStream(openConnection({ base_url }), "logs", { robot_id: "rob_1", signal: off.signal });
      off.abort(new Error("interrupted"));
      await assert.rejects(opening, /interrupted/);
    },
  );
});

test("opening a stream throws Unreachable without the token in its message if there is no server", { timeout: 120_000 }, async () => {
  await withPeer(
    () => {},
    async (base_url, server) => {
      server.close();
      const error = await createClient({ base_url, token: "rf_user_a" })
        .stream("logs", { robot_id: "rob_1" })
        .catch((thrown: unknown) => thrown);
      assert.ok(error instanceof Error);
      assert.equal(error.name, "Unreachable");
      assert.doesNotMatch(error.message, /rf_user_a/);
    },
  );
});

test("a lost or aborted stream ends with code 1006", { timeout: 120_000 }, async () => {
  await withPeer(
    (socket) => void setImmediate().then(() => socket.terminate()),
    async (base_url) => {
      const stream = await createClient({ base_url }).stream("logs", { robot_id: "rob_1" });
      assert.deepEqual(await read(stream), []);
      assert.equal(stream.ending?.code, 1006);
    },
  );
  await withPeer(
    (socket) => socket.send("one"),
    async (base_url) => {
      const controller = new AbortController();
      const stream = await createClient({ base_url }).stream("logs", { robot_id: "rob_1", signal: controller.signal });
      for await (const frame of stream) {
        assert.equal(frame.data.toString(), "one");
        controller.abort();
      }
      assert.equal(stream.ending?.code, 1006);
    },
  );
});

test("a stream blocks its sender until a slow server reads or disconnects", { timeout: 120_000 }, async () => {
  const peers: WebSocket[] = [];
  await withPeer(
    (socket) => void peers.push(socket),
    async (base_url) => {
      const client = createClient({ base_url, token: "t" });
      const stream = await client.stream("shell", { robot_id: "rob_1", protocols: ["roamfleet.shell.v1"] });
      assert.equal(stream.protocol, "roamfleet.shell.v1");
      const [peer] = peers;
      assert.ok(peer);
      let arrived = 0;
      peer.on("message", (data: Buffer) => (arrived += data.length));
      peer.pause();
      const part = new Uint8Array(1024 * 1024);
      let taken = 0;
      const sender = (async () => {
        for (; taken < 64; taken += 1) await stream.send(part);
      })();
      // Wait until the sender is blocked, after the kernel has buffered some of the data. Both ends are in this process, so a sender that
      // is not blocked sends more within 100 turns of the event loop.
      for (let before = -1; taken > before;) {
        before = taken;
        for (let turn = 0; turn < 100; turn += 1) await setImmediate();
      }
      assert.ok(taken < 64, `${taken} MiB were taken`);
      peer.resume();
      await sender;
      while (arrived < 64 * part.length) await new Promise((resolve) => peer.once("message", resolve));
      peer.pause();
      const stuck = (async () => {
        for (let i = 0; i < 64; i += 1) await stream.send(part);
      })();
      peer.terminate();
      await Promise.all([stuck, read(stream)]);
    },
  );
});
