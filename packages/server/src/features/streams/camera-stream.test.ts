// Separate process: it measures its memory.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { until } from "@roamfleet/clock/testing";
import { CAMERA_FRAME_BYTES_MAX, type Channel, controlMessage, dataMessage, type StreamSource } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { WebSocket } from "ws";
import { startRig } from "./testing/rig.ts";

const LIMIT = { timeout: 120_000 };
const KIB = 1024;
/** Maximum memory in the server for a viewer that does not read. */
const STUCK_BYTES_MAX = 1024 * KIB;
const STUCK = 4;
const WATCHING = 200;
const LARGE_FRAMES = 60;
const SMALL_FRAMES = 100;

interface Watching {
  ws: WebSocket;
  frames: Buffer[];
  closed: Promise<string>;
}

/** Starts a robot with a camera that the test controls. `watch` opens a viewer. */
async function cameraRig(t: TestContext, serve: StreamSource = () => {}) {
  const rig = await startRig();
  const sockets: WebSocket[] = [];
  t.after(async () => {
    for (const ws of sockets) ws.terminate();
    await rig[Symbol.asyncDispose]();
  });
  const opened: { channel: Channel; params: unknown }[] = [];
  const { server } = channelPair({
    camera: (channel, params) => {
      opened.push({ channel, params });
      void serve(channel, params);
    },
  });
  const session = { ...rig.session, openChannel: server.open.bind(server) };
  rig.sessions.set(rig.robot_id, session);
  const path = `/api/robots/${rig.robot_id}/camera/ws`;
  return {
    rig,
    path,
    opened,
    watch: async (query = "", keep = true): Promise<Watching> => {
      const ws = new WebSocket(`${rig.origin}${path}?token=${rig.token}${query}`);
      sockets.push(ws);
      const frames: Buffer[] = [];
      ws.on("error", () => {});
      ws.on("message", (data: Buffer) => void frames.push(keep ? data : Buffer.alloc(1, data[0])));
      const closed = once(ws, "close").then(([code, reason]) => `${Number(code)} ${String(reason)}`);
      await once(ws, "open");
      return { ws, frames, closed };
    },
    /** Sends a frame from the robot on all its channels. */
    send: async (frame: Uint8Array): Promise<void> => {
      for (const { channel } of opened) await channel.write(dataMessage(frame));
    },
    refuse: (query: string) => rig.refused(`${path}?token=${rig.token}${query}`),
  };
}

test("camera viewers with the same parameters share one channel and get each frame unchanged", LIMIT, async (t) => {
  const { watch, opened, send } = await cameraRig(t);
  const [a, b, small] = await Promise.all([
    watch("&camera=front&fps=5"),
    watch("&fps=5&camera=front"),
    watch("&width=320&height=240&quality=40"),
  ]);
  await until("two channels", () => opened.length === 2);
  assert.deepEqual(
    new Set(opened.map(({ params }) => JSON.stringify(params))),
    new Set(['{"camera":"front","fps":5}', '{"width":320,"height":240,"quality":40}']),
  );
  const frame = Buffer.from([0xff, 0xd8, 0, 1, 2, 0xff, 0xd9]);
  await send(frame);
  await until("a frame for all", () => [a, b, small].every(({ frames }) => frames.length === 1));
  assert.deepEqual([a.frames[0], b.frames[0], small.frames[0]], [frame, frame, frame]);
  // A later viewer gets the newest frame immediately.
  const late = await watch("&camera=front&fps=5");
  await until("its first frame", () => late.frames.length === 1);
  assert.equal(opened.length, 2);
  for (const { ws } of [a, b, late]) ws.close();
  const front = opened.find(({ params }) => JSON.stringify(params).includes("front"));
  assert.equal((await front!.channel.ended).code, 1000);
});

test("refuses invalid camera parameters before the upgrade", LIMIT, async (t) => {
  const { refuse, opened } = await cameraRig(t);
  for (const query of [
    "fps=0",
    "fps=31",
    "fps=x",
    "fps=1e1",
    "fps=",
    "width=63",
    "width=1921",
    "width=1.5",
    "quality=0",
    "quality=101",
    "height=-1",
    "camera=",
    `camera=${"x".repeat(101)}`,
    "list&fps=3",
    "size=3",
    "fps=1&fps=2",
  ]) {
    const { status, code } = await refuse(`&${query}`);
    assert.deepEqual([query, status, code], [query, 400, "bad_request"]);
  }
  assert.equal(opened.length, 0);
});

test("sends the list of cameras as one text frame, without malformed entries", LIMIT, async (t) => {
  const cameras = [{ name: "front", kind: "ffmpeg", url: "rtsp://secret" }, { name: 3 }, null, { name: "x".repeat(101), kind: "ros" }];
  const { watch, opened } = await cameraRig(t, (channel) => {
    void channel.write(controlMessage({ type: "cameras", cameras })).then(() => channel.close());
  });
  const listed = await watch("&list");
  assert.equal(await listed.closed, "1000 ");
  assert.deepEqual(listed.frames.map(String), ['{"cameras":[{"name":"front","kind":"ffmpeg"}]}']);
  assert.deepEqual(opened[0]!.params, { list: true });
});

test("closes a camera stream with 4410 for an unknown camera, and 4409 for an offline agent", LIMIT, async (t) => {
  const { watch, rig, opened } = await cameraRig(t, (channel, params) => {
    if (JSON.stringify(params).includes("rear")) channel.reset(4410, "this robot has no camera of that name, only front");
    if (JSON.stringify(params).includes("cyrillic")) channel.reset(4410, `only ${"ж".repeat(100)}`);
  });
  assert.equal(await (await watch("&camera=rear")).closed, "4410 this robot has no camera of that name, only front");
  // Camera names are arbitrary, but the reason of a close frame is limited to 123 bytes.
  assert.equal(await (await watch("&camera=cyrillic")).closed, `4410 only ${"ж".repeat(59)}`);
  const front = await watch();
  await until("the channel", () => opened.length === 3);
  opened[2]!.channel.close(4410, "ffmpeg: the lens fell off");
  assert.equal(await front.closed, "4410 ffmpeg: the lens fell off");
  rig.sessions.delete(rig.robot_id);
  assert.equal(await (await watch()).closed, "4409 agent offline");
});

test("an invalid or too large camera frame ends the stream and is not forwarded", LIMIT, async (t) => {
  const { watch, opened } = await cameraRig(t);
  for (const message of [controlMessage({ type: "frame" }), Uint8Array.of(7, 1), dataMessage(new Uint8Array(CAMERA_FRAME_BYTES_MAX + 1))]) {
    const viewer = await watch();
    await until("the channel", () => opened.length > 0);
    await opened.pop()!.channel.write(message);
    assert.equal(await viewer.closed, "4410 the robot sent an invalid frame");
    assert.equal(viewer.frames.length, 0);
  }
});

function memory(): number {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as () => void;
  for (let i = 0; i < 3; i += 1) gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

test("camera viewers that do not read use at most 1 MB each and do not delay others", LIMIT, async (t) => {
  const { watch, send, opened } = await cameraRig(t);
  const stuck = await Promise.all(Array.from({ length: STUCK }, () => watch("", false)));
  const first = await watch("", false);
  await until("the channel", () => opened.length === 1);
  const expectNewest = (list: Watching[], newest: number) =>
    until(`frame ${newest} for each`, () => list.every(({ frames }) => frames.at(-1)?.[0] === newest % 256));
  const frame = (number: number, length: number): Buffer => Buffer.alloc(length, number % 256);
  let number = 0;
  await send(frame(number, KIB));
  await expectNewest([first, ...stuck], number);
  for (const { ws } of stuck) ws.pause();
  const before = memory();
  // More bytes than the kernel buffers for a socket that is not read.
  while (number < LARGE_FRAMES) {
    await send(frame((number += 1), CAMERA_FRAME_BYTES_MAX));
    await expectNewest([first], number);
  }
  const each = (memory() - before) / STUCK;
  assert.ok(each <= STUCK_BYTES_MAX, `${Math.round(each / KIB)} KiB for each viewer that does not read`);

  const others = await Promise.all(Array.from({ length: WATCHING }, () => watch("", false)));
  await expectNewest(others, number);
  const from = number;
  while (number < from + SMALL_FRAMES) {
    await send(frame((number += 1), 4 * KIB));
    await expectNewest(others, number);
  }
  const seen = Array.from({ length: SMALL_FRAMES + 1 }, (_, i) => (from + i) % 256);
  for (const { frames } of others)
    assert.deepEqual(
      frames.map((one) => one[0]),
      seen,
    );
  t.diagnostic(
    `${Math.round(each / KIB)} KiB for each of ${STUCK} viewers that do not read; ${WATCHING} others got all of ${seen.length} frames`,
  );
  // When the paused viewers read again, they get the newest frame but not the missed ones.
  for (const { ws } of stuck) ws.resume();
  await expectNewest(stuck, number);
  for (const { frames } of stuck) assert.ok(frames.length < LARGE_FRAMES, `${frames.length}`);
});
