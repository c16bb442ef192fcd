import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { test, type TestContext } from "node:test";
import { type Clock, SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Channel, ChannelRefused, readMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { WebSocket, WebSocketServer } from "ws";
import { FrameRateLimiter, LINK_FRAMES } from "../../link/index.ts";
import type { Admitted } from "./admit.ts";
import { Hub, LatestSlot } from "./hub.ts";
import { Viewer, VIEWER_RECEIVE_BYTES } from "./viewer.ts";

const LIMIT = { timeout: 120_000 };
const MIB = 1024 * 1024;

/** Connects viewers over real sockets and returns both ends. */
async function sockets(t: TestContext, clock: Clock = systemClock): Promise<() => Promise<{ viewer: Viewer; ws: WebSocket }>> {
  const accepted = new WebSocketServer({ noServer: true });
  const server: Server = createServer();
  const pace = new FrameRateLimiter(clock);
  const admitted = { caller: { org_id: "org_1" } } as Admitted;
  // Keyed by request path, because concurrent connections may arrive in any order.
  const viewers = new Map<string, Viewer>();
  server.on("upgrade", (request, socket: Duplex, head) =>
    accepted.handleUpgrade(
      request,
      socket,
      head,
      (ws) => void viewers.set(request.url ?? "", new Viewer(admitted, ws, socket, { request_id: "req_1", pace })),
    ),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const { ws } of viewers.values()) ws.terminate();
    server.closeAllConnections();
    server.close();
  });
  let made = 0;
  return async () => {
    const path = `/${(made += 1)}`;
    const ws = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);
    ws.on("error", () => {});
    await once(ws, "open");
    return { viewer: await until("the server's end", () => viewers.get(path)), ws };
  };
}

test("viewers share one channel, which closes when the last of them leaves", LIMIT, async (t) => {
  const join = await sockets(t);
  const opened: Channel[] = [];
  const ended: number[] = [];
  const { server } = channelPair({
    camera: (channel) => {
      opened.push(channel);
      void channel.ended.then(({ code }) => ended.push(code));
    },
  });
  const hub = new Hub();
  const got: string[] = [];
  const watch = async (name: string): Promise<{ viewer: Viewer; ws: WebSocket }> => {
    const { viewer, ws } = await join();
    const take = (message: Uint8Array): void => void got.push(`${name} ${Buffer.from(message).toString()}`);
    await hub.share({ key: "rob_1 front", open: () => server.open("camera", "camera"), viewer, take, greet: true });
    return { viewer, ws };
  };
  const [a, b] = await Promise.all([watch("a"), watch("b")]);
  await opened[0]!.write(Buffer.from("1"));
  await until("both", () => got.length === 2);
  const c = await watch("c");
  assert.deepEqual([got.toSorted(), opened.length, hub.size], [["a 1", "b 1", "c 1"], 1, 1]);
  for (const { ws } of [a, c]) ws.close();
  // The server detects that a socket has closed later than the client does.
  await until("both to have left", () => [a, c].every(({ viewer }) => viewer.ws.readyState === viewer.ws.CLOSED));
  await opened[0]!.write(Buffer.from("2"));
  await until("the remaining viewer's message", () => got.includes("b 2"));
  assert.deepEqual([got.length, ended], [4, []]);
  b.ws.close();
  await until("the end of the channel", () => ended.length === 1);
  assert.deepEqual([ended, hub.size], [[1000], 0]);
  await watch("d");
  assert.equal(opened.length, 2);
});

test("closes every viewer with the robot's reason when the robot refuses or ends the channel", LIMIT, async (t) => {
  const join = await sockets(t);
  const opened: Channel[] = [];
  const { server } = channelPair({
    camera: (channel) => void opened.push(channel),
    off: (channel) => channel.reset(4410, "disabled on the robot"),
  });
  const hub = new Hub();
  const close = async (key: string, open: () => Promise<Channel>): Promise<() => Promise<string>> => {
    const { viewer, ws } = await join();
    const closed = new Promise<string>((resolve) => ws.once("close", (code, reason) => resolve(`${code} ${reason.toString()}`)));
    await hub.share({ key, open, viewer, take: () => {} });
    return () => closed;
  };
  const camera = (): Promise<Channel> => server.open("camera", "camera");
  const [first, second] = [await close("on", camera), await close("on", camera)];
  opened[0]!.close(4410, "the camera was unplugged");
  assert.deepEqual([await first(), await second()], ["4410 the camera was unplugged", "4410 the camera was unplugged"]);
  assert.equal(await (await close("off", () => server.open("off", "camera")))(), "4410 disabled on the robot");
  assert.equal(await (await close("old", () => server.open("none", "camera")))(), "4410 not supported by this agent");
  const gone = (): Promise<Channel> => Promise.reject(new ChannelRefused({ code: 1006, reason: "" }));
  assert.equal(await (await close("gone", gone))(), "4409 agent offline");
  const cut = await close("cut", camera);
  server.endAll("cut");
  assert.equal(await cut(), "4409 agent offline");
  assert.equal(hub.size, 0);
});

test("an invalid message of a robot ends its stream, but not the server", LIMIT, async (t) => {
  const join = await sockets(t);
  const opened: Channel[] = [];
  const { server } = channelPair({ topics: (channel) => void opened.push(channel) });
  const { viewer, ws } = await join();
  const closed = new Promise<string>((resolve) => ws.once("close", (code, reason) => resolve(`${code} ${reason.toString()}`)));
  const take = (message: Uint8Array): void => void readMessage(message);
  await new Hub().share({ key: "rob_1", open: () => server.open("topics", "topics"), viewer, take });
  await opened[0]!.write(Buffer.from([9, 9, 9]));
  assert.equal(await closed, "4410 the robot sent an invalid message");
  assert.equal((await opened[0]!.ended).code, 4410);
});

test("buffers two frames for a viewer that does not read, and reports the number of skipped frames", LIMIT, async (t) => {
  const join = await sockets(t);
  const { viewer, ws } = await join();
  const got: [frame: number, skipped: number][] = [];
  ws.on("message", (data: Buffer) => got.push([data.readUInt32BE(0), data.readUInt32BE(4)]));
  const slot = new LatestSlot<number>(viewer, (frame, skipped) => {
    const bytes = Buffer.alloc(MIB);
    bytes.writeUInt32BE(frame, 0);
    bytes.writeUInt32BE(skipped, 4);
    return bytes;
  });
  ws.pause();
  for (let frame = 1; frame <= 200; frame += 1) {
    slot.offer(frame);
    assert.ok(viewer.ws.bufferedAmount < 2 * MIB, `${viewer.ws.bufferedAmount} bytes wait`);
    await new Promise((resolve) => setImmediate(resolve));
  }
  ws.resume();
  await until("the newest frame", () => got.at(-1)?.[0] === 200);
  let before = 0;
  for (const [frame, skipped] of got) {
    assert.equal(frame, before + skipped + 1);
    before = frame;
  }
});

test("stops reading a viewer with unprocessed messages, and closes one that sends invalid messages", LIMIT, async (t) => {
  const join = await sockets(t);
  const { viewer, ws } = await join();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let taken = 0;
  viewer.receive(async (data) => {
    await gate;
    taken += data.length;
    if (data.toString() === "nonsense") throw new Error("not valid");
  });
  const parts = 128;
  for (let i = 0; i < parts; i += 1) ws.send(Buffer.alloc(MIB / 4));
  await until("the pause", () => viewer.ws.isPaused);
  assert.ok(ws.bufferedAmount > MIB, `only ${ws.bufferedAmount} bytes wait at the viewer after ${VIEWER_RECEIVE_BYTES}`);
  open();
  await until("everything", () => taken === (parts * MIB) / 4);
  ws.send("nonsense");
  const [code] = (await once(ws, "close")) as [number];
  assert.equal(code, 1008);
});

/** Writes empty frames, which cost a viewer 6 bytes each. */
function flood(ws: WebSocket, frames: number): void {
  const { _socket: socket } = ws as unknown as { _socket: Socket };
  socket.write(Buffer.concat(Array.from({ length: frames }, () => Buffer.from([0x82, 0x80, 0, 0, 0, 0]))));
}
/** Maximum number of frames in the last chunk of 64 KiB that is read. */
const CHUNK_FRAMES = 11_000;

test("limits the rate of a viewer that floods with empty frames, without dropping any", LIMIT, async (t) => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00.000Z" });
  const join = await sockets(t, clock);
  const { viewer, ws } = await join();
  let taken = 0;
  viewer.receive(() => void (taken += 1));
  flood(ws, 100_000);
  await until("the pause", () => viewer.ws.isPaused);
  assert.ok(taken >= LINK_FRAMES.burst && taken <= LINK_FRAMES.burst + CHUNK_FRAMES, `${taken} frames at once`);
  // The flood does not delay a frame of another viewer.
  const other = await join();
  let heard = 0;
  other.viewer.receive(() => void (heard += 1));
  other.ws.send("hello");
  await until("the other viewer's frame", () => heard === 1);
  assert.equal(viewer.ws.isPaused, true);
  const seconds = (100_000 - LINK_FRAMES.burst) / (LINK_FRAMES.per_minute / 60);
  let passed = 0;
  await until("all frames", () => taken === 100_000, {
    meanwhile: async () => {
      if (!viewer.ws.isPaused) return;
      passed += 0.1;
      await clock.advance({ milliseconds: 100 });
    },
  });
  // The last chunks are processed before the rate limit counts them.
  assert.ok(passed > seconds - 4 && passed < seconds + 2, `${passed} s for what takes ${seconds}`);
  assert.equal(viewer.open, true);
});

test("stops reading a viewer after a bounded number of unprocessed empty frames", LIMIT, async (t) => {
  const join = await sockets(t);
  const { viewer, ws } = await join();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let taken = 0;
  viewer.receive(async () => {
    await gate;
    taken += 1;
  });
  // Fewer than the burst of the rate limit.
  const frames = 30_000;
  flood(ws, frames);
  await until("the pause", () => viewer.ws.isPaused);
  open();
  await until("all of them", () => taken === frames);
});

test("does not disconnect a viewer whose pong is queued behind unprocessed messages", LIMIT, async (t) => {
  const join = await sockets(t);
  const { viewer, ws } = await join();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  viewer.receive(() => gate);
  viewer.ping();
  ws.send(Buffer.alloc(VIEWER_RECEIVE_BYTES + 1));
  await until("the socket to be left unread", () => viewer.ws.isPaused);
  for (let n = 0; n < 3; n += 1) viewer.ping();
  assert.equal(viewer.open, true);
  open();
  await until("the socket to be read again", () => !viewer.ws.isPaused);
  ws.pause();
  viewer.ping();
  const closed = once(viewer.ws, "close");
  viewer.ping();
  await closed;
});

test("keeps the close code of a viewer that closed just before the server did", LIMIT, async (t) => {
  const join = await sockets(t);
  const { viewer, ws } = await join();
  // The viewer does not read the response, so its close handshake is not complete.
  ws.pause();
  ws.close(4000, "enough");
  await until("the close of the viewer", () => viewer.ws.readyState === viewer.ws.CLOSING);
  const closed = once(viewer.ws, "close") as Promise<[number]>;
  viewer.close(1013, "the server is stopping");
  ws.resume();
  assert.deepEqual([(await closed)[0], viewer.ended_with], [4000, undefined]);
});
