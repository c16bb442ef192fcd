import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { type Channel, readMessage } from "@roamfleet/protocol/link";
import { cameraRig, isAlive, jpegByFfmpeg, lavfi, NO_FFMPEG, nextFrame, sizeOf } from "../../testing/camera-rig.ts";
import { JpegSplitter } from "./jpeg-splitter.ts";

const LIMIT = { timeout: 300_000 };
const REAL = { ...LIMIT, skip: NO_FFMPEG };
const front = { name: "front", kind: "ffmpeg" as const, input: lavfi("testsrc2=size=640x480:rate=15") };
const drawn = { name: "test", kind: "test_picture" as const };

const refusal = async (opening: Promise<Channel>): Promise<string> => {
  const channel = await opening.catch((error: Error & { code: number }) => `${error.code} ${error.message}`);
  if (typeof channel === "string") return channel;
  while ((await channel.read()) !== undefined);
  const { code, reason } = await channel.ended;
  return `${code} ${reason}`;
};

test("sends the frames of ffmpeg unchanged and in order", REAL, async () => {
  await using rig = await cameraRig([front]);
  await rig.program('"$FFMPEG" "$@" | tee "$RIG/out"');
  const channel = await rig.open();
  const seen: string[] = [];
  while (seen.length < 20) seen.push(Buffer.from(await nextFrame(channel)).toString("base64"));
  // Splits frames independently of the product. A frame of ffmpeg has only one end marker.
  const read = async (): Promise<string[]> => {
    const written = (await readFile(path.join(rig.directory, "out"))).toString("latin1");
    const frames = written.split("\xff\xd9").slice(0, -1);
    return frames.map((frame) => Buffer.from(`${frame}\xff\xd9`, "latin1").toString("base64"));
  };
  // tee writes to stdout before it writes to the file, and the end of the channel may kill it in between.
  const left = await until("the last frame in the file", async () => {
    const frames = await read();
    return frames.includes(seen.at(-1)!) && frames;
  });
  channel.close();
  assert.ok(left.length >= 20);
  const places = seen.map((frame) => left.indexOf(frame));
  assert.ok(!places.includes(-1), `each came out of ffmpeg: ${places.join(" ")}`);
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(places).size, places.length);
  assert.equal(await sizeOf(Buffer.from(seen[0]!, "base64")), "640x480");
});

test("all viewers of a camera picture share one ffmpeg process, which ends with the last viewer", REAL, async () => {
  await using rig = await cameraRig([front]);
  await rig.program('exec "$FFMPEG" "$@"');
  const [first, second] = [await rig.open(), await rig.open({ camera: "front" })];
  await Promise.all([nextFrame(first), nextFrame(second)]);
  const [pid] = await rig.starts();
  assert.equal((await rig.starts()).length, 1);
  first.close();
  await nextFrame(second);
  await nextFrame(second);
  assert.equal(isAlive(pid!), true);
  second.close();
  await until("the end of ffmpeg", () => !isAlive(pid!));
});

test("a camera picture has the requested size and quality but is never enlarged", REAL, async () => {
  await using rig = await cameraRig([front]);
  const [small, poor, large] = [
    await rig.open({ width: 320 }),
    await rig.open({ quality: 5 }),
    await rig.open({ width: 1920, height: 1080 }),
  ];
  const frames = [await nextFrame(small), await nextFrame(poor), await nextFrame(large)] as const;
  assert.deepEqual([await sizeOf(frames[0]), await sizeOf(frames[1]), await sizeOf(frames[2])], ["320x240", "640x480", "640x480"]);
  assert.ok(frames[1].length < frames[2].length / 2, `${frames[1].length} of ${frames[2].length}`);
  for (const channel of [small, poor, large]) channel.close();
});

test("a camera that fails to open reports ffmpeg's last error without secrets", REAL, async () => {
  await using rig = await cameraRig([
    { name: "rtsp", kind: "ffmpeg", input: ["-rtsp_transport", "tcp", "-i", "rtsp://bob:hunter2@127.0.0.1:1/live?token=abc"] },
    { name: "video0", kind: "ffmpeg", input: ["-f", "v4l2", "-i", "/dev/video-not-there"] },
  ]);
  const rtsp = await refusal(rig.open());
  assert.match(rtsp, /^4410 ffmpeg: .*refused/i);
  assert.doesNotMatch(rtsp, /hunter2|abc/);
  assert.match(await refusal(rig.open({ camera: "video0" })), /^4410 ffmpeg: .*No such file/);
  // The second attempt fails immediately, without another ffmpeg process.
  assert.match(await refusal(rig.open({ camera: "video0" })), /^4410 ffmpeg: .*No such file/);
});

test("a camera stream from a file ends normally at the end of the file", REAL, async () => {
  await using rig = await cameraRig([{ ...front, input: lavfi("testsrc2=size=320x240:rate=15:duration=1") }]);
  assert.equal(await refusal(rig.open()), "1000 the file has ended");
});

test("restarts a camera source that exits, and fails with its last error if it keeps exiting", REAL, async () => {
  await using rig = await cameraRig([front], { haste: 100 });
  await rig.program('exec "$FFMPEG" "$@"');
  const channel = await rig.open({ width: 320 });
  await nextFrame(channel);
  process.kill((await rig.starts())[0]!, "SIGKILL");
  await until("another start", async () => (await rig.starts()).length >= 2);
  for (let i = 0; i < 20; i += 1) await nextFrame(channel);
  await rig.program('echo "the lens fell off" >&2; exit 3');
  process.kill((await rig.starts()).at(-1)!, "SIGKILL");
  assert.equal(await refusal(Promise.resolve(channel)), "4410 ffmpeg: the lens fell off");
  assert.ok((await rig.starts()).length >= 6);
});

test("keeps viewers connected while a network camera reboots", REAL, async (t) => {
  const jpeg = await jpegByFfmpeg();
  let connections = 0;
  const camera = createServer((socket) => {
    connections += 1;
    // The connection closes normally, so ffmpeg exits with 0.
    for (let frame = 0; frame < 30; frame += 1) socket.write(jpeg);
    socket.end();
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => camera.listen(0, "127.0.0.1", resolve));
  t.after(() => camera.close());
  const { port } = camera.address() as AddressInfo;
  await using rig = await cameraRig([{ ...front, input: ["-f", "mjpeg", "-i", `tcp://127.0.0.1:${port}`] }], { haste: 10 });
  const channel = await rig.open();
  await nextFrame(channel);
  await until("another connection", () => connections >= 2);
  await nextFrame(channel);
  channel.close();
});

test("a camera process that does not end does not block the next viewers", REAL, async (t) => {
  await using rig = await cameraRig([front], { haste: 100 });
  // Node does not report the end of the process while another process keeps its output open.
  await rig.program('setsid sleep 600 & echo $! > "$RIG/holder"; exec "$FFMPEG" "$@"');
  const first = await rig.open({ width: 320 });
  await nextFrame(first);
  const holder = Number(await readFile(path.join(rig.directory, "holder"), "utf8"));
  t.after(() => process.kill(holder));
  first.close();
  await rig.program('exec "$FFMPEG" "$@"');
  await nextFrame(await rig.open({ width: 160 }));
});

test("a robot without ffmpeg still serves a test picture in the requested size", LIMIT, async () => {
  await using rig = await cameraRig([front, drawn], { path: "" });
  assert.equal(await refusal(rig.open()), "4410 ffmpeg is not installed on the robot");
  const whole = await rig.open({ camera: "test", fps: 30 });
  const frames = [await nextFrame(whole)];
  // Consecutive frames may be equal, but the picture moves.
  while (frames.length < 3) {
    const frame = await nextFrame(whole);
    if (!Buffer.from(frame).equals(frames.at(-1)!)) frames.push(frame);
  }
  const found: Uint8Array[] = [];
  new JpegSplitter((jpeg) => found.push(jpeg)).push(Buffer.concat(frames));
  assert.equal(found.length, 3);
  const small = await nextFrame(await rig.open({ camera: "test", width: 320 }));
  if (NO_FFMPEG === false) assert.deepEqual([await sizeOf(frames[0]!), await sizeOf(small)], ["640x480", "320x240"]);
});

test("lists the robot's cameras, also in the error for an unknown camera", LIMIT, async () => {
  await using rig = await cameraRig([front, drawn]);
  const list = await rig.open({ list: true });
  assert.deepEqual(readMessage((await list.read())!).control, {
    type: "cameras",
    cameras: [
      { name: "front", kind: "ffmpeg" },
      { name: "test", kind: "test_picture" },
    ],
  });
  assert.deepEqual(await list.ended, { code: 1000, reason: "" });
  assert.equal(await refusal(rig.open({ camera: "rear" })), "4410 this robot has no camera of that name, only front, test");
  assert.equal(await refusal(rig.open({ fps: 1_000 })), "4410 fps must be a number from 0.1 to 30");
  await using none = await cameraRig([]);
  assert.equal(await refusal(none.open()), "4410 this robot has no camera");
});

test("reduces the size of camera frames that are too large", REAL, async () => {
  await using rig = await cameraRig([{ ...front, input: lavfi("nullsrc=size=1600x1200:rate=5,geq=random(1)*255:128:128") }]);
  const channel = await rig.open({ width: 1600, quality: 100 });
  const frame = await nextFrame(channel);
  assert.ok(frame.length < 512 * 1024);
  assert.notEqual(await sizeOf(frame), "1600x1200");
});

test("runs at most eight camera sources concurrently", LIMIT, async () => {
  await using rig = await cameraRig([drawn], { path: "" });
  const open = await Promise.all(Array.from({ length: 8 }, (_, i) => rig.open({ quality: i + 1 })));
  await Promise.all(open.map(nextFrame));
  assert.equal(await refusal(rig.open()), "4410 8 cameras are open already");
  open[0]!.close();
  await until("a source that ended", () => rig.pair.robot.size === 7);
  await nextFrame(await rig.open());
});
