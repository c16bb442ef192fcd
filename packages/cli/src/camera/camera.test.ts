import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import type { WebSocket } from "ws";
import { RfHome, type RfResult } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";
import { FrameMeter, jpegSize } from "./frame-meter.ts";

const TIMEOUT = { timeout: 120_000 };
const run = promisify(execFile);
const NO_FFMPEG: string | false = await run("ffmpeg", ["-version"]).then(
  () => false as const,
  () => "ffmpeg is not installed",
);

const APP1 = [0xff, 0xe1, 0, 11, 0xff, 0xc0, 0, 17, 8, 0, 1, 0, 1];
const SOF = [0xff, 0xc0, 0, 11, 8, 480 >> 8, 480 & 255, 640 >> 8, 640 & 255, 1, 1, 0x11, 0];
/** JPEG headers: a segment with an embedded thumbnail, then 640 × 480. */
const head = (tail: number): Buffer => Buffer.from([0xff, 0xd8, ...APP1, 0xff, ...SOF, tail, 0xff, 0xd9]);

async function camera(accept: (socket: WebSocket) => void, args: string[], options: { path?: string } = {}) {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(() => undefined, accept);
  const in_home = args.map((arg) => arg.replace("HOME/", `${home.directory}/`));
  const result: RfResult = await home.run(["robots", "camera", "rob_1", ...in_home], {
    env: { ...service.env, ...(options.path === undefined ? {} : { PATH: options.path }) },
  });
  const files = new Map<string, Buffer>();
  for (const name of await readdir(home.directory))
    if (/\.(jpg|mjpeg|mp4|tmp)$/.test(name)) files.set(name, await readFile(path.join(home.directory, name)));
  return { ...result, files, asked: service.lines.at(-1)?.replace(/^UPGRADE [^?]*\?/, "") };
}

const sendFrames =
  (...frames: Buffer[]) =>
  (socket: WebSocket): void => {
    for (const frame of frames) socket.send(frame);
  };

test("rf robots camera --snapshot requests the given options and writes only the first frame", TIMEOUT, async () => {
  const wanted = ["--camera", "front left", "--fps", "2", "--width", "320", "--quality", "40"];
  const { code, files, asked, stderr } = await camera(sendFrames(head(1), head(2)), ["--snapshot", "HOME/a.jpg", ...wanted]);
  assert.equal(code, 0, stderr);
  assert.deepEqual([...files], [["a.jpg", head(1)]]);
  assert.deepEqual(Object.fromEntries(new URLSearchParams(asked)), {
    camera: "front left",
    fps: "2",
    width: "320",
    quality: "40",
  });
});

test("rf robots camera --snapshot without a frame writes no file and prints the reason", TIMEOUT, async () => {
  const { code, files, stderr } = await camera((socket) => socket.close(4410, "this robot has no camera"), ["--snapshot", "HOME/a.jpg"]);
  assert.deepEqual([code, [...files]], [1, []]);
  assert.match(stderr, /this robot has no camera/);
  assert.equal((await camera((socket) => socket.close(4409, "agent offline"), ["--snapshot", "HOME/a.jpg"])).code, 7);
});

test("rf robots camera --save writes each frame unchanged until the stream or duration ends", TIMEOUT, async () => {
  const frames = [head(1), head(2), head(3)];
  const all = Buffer.concat(frames);
  const ended = await camera(
    (socket) => {
      sendFrames(...frames)(socket);
      socket.close(1000, "the picture has come to its end");
    },
    ["--save", "HOME/a.mjpeg"],
  );
  assert.deepEqual([ended.code, ended.files.get("a.mjpeg")], [0, all], ended.stderr);
  const timed = await camera(sendFrames(...frames), ["--save", "HOME/a.mjpeg", "--duration", "1s", "--json"]);
  assert.deepEqual([timed.code, timed.files.get("a.mjpeg")], [0, all], timed.stderr);
  const { data } = JSON.parse(timed.stdout) as { data: { frames: number; bytes: number } };
  assert.deepEqual([data.frames, data.bytes], [3, all.length]);
});

test("rf robots camera --save prints an error for an unwritable file or a missing ffmpeg", TIMEOUT, async () => {
  const denied = await camera(sendFrames(head(1)), ["--save", "/nonexistent/a.mjpeg"]);
  assert.equal(denied.code, 1);
  assert.match(denied.stderr, /cannot write \/nonexistent\/a\.mjpeg/);
  const without = await camera(sendFrames(head(1)), ["--save", "HOME/a.mp4"], { path: path.dirname(process.execPath) });
  assert.equal(without.code, 1);
  assert.match(without.stderr, /\.mp4 files need ffmpeg, which is not installed[^]*\.mjpeg/);
});

test("rf robots camera --save to .mp4 encodes the frames as a video", { ...TIMEOUT, skip: NO_FFMPEG }, async () => {
  const args = [
    "-nostdin",
    "-loglevel",
    "error",
    "-f",
    "lavfi",
    "-i",
    "testsrc2=size=320x240",
    "-frames:v",
    "1",
    "-f",
    "image2pipe",
    "-c:v",
    "mjpeg",
    "pipe:1",
  ];
  const { stdout: jpeg } = await run("ffmpeg", args, { encoding: "buffer" });
  const saved = await camera(
    (socket) => {
      let left = 10;
      const timer = setInterval(() => {
        socket.send(jpeg);
        left -= 1;
        if (left > 0) return;
        clearInterval(timer);
        socket.close(1000);
      }, 50);
    },
    ["--save", "HOME/a.mp4"],
  );
  assert.equal(saved.code, 0, saved.stderr);
  assert.equal(saved.files.get("a.mp4")!.subarray(4, 8).toString("latin1"), "ftyp");
});

test("rf robots camera lists cameras as a table or JSON and escapes control characters", TIMEOUT, async () => {
  const list = { cameras: [{ name: "front\u001b[2J", kind: "ffmpeg" }] };
  const accept = (socket: WebSocket): void => {
    socket.send(JSON.stringify(list));
    socket.close(1000);
  };
  const people = await camera(accept, []);
  assert.deepEqual([people.code, people.asked], [0, "list=true"], people.stderr);
  assert.match(people.stdout, /^CAMERA +SOURCE\nfront\\x1b\[2J +ffmpeg\n$/);
  assert.deepEqual(JSON.parse((await camera(accept, ["--json"])).stdout), list);
});

test("rf robots camera rejects out-of-range numbers and --snapshot with --save", TIMEOUT, async () => {
  const refuse = (socket: WebSocket): void => socket.terminate();
  for (const args of [
    ["--fps", "31"],
    ["--width", "10"],
    ["--quality", "0"],
    ["--fps", "x"],
    ["--snapshot", "a", "--save", "b"],
  ])
    assert.equal((await camera(refuse, args)).code, 2, args.join(" "));
});

test("reads the width and height of a JPEG picture after skipping other segments", () => {
  assert.deepEqual(jpegSize(head(1)), { width: 640, height: 480 });
  for (const none of [
    Buffer.alloc(0),
    Buffer.from("JPEG"),
    head(1).subarray(0, 20),
    Buffer.from([0xff, 0xd8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
  ])
    assert.equal(jpegSize(none), undefined);
});

test("the camera meter reports the recent and the overall frame rate", () => {
  const meter = new FrameMeter();
  assert.equal(meter.words(), "No frames received.");
  for (let i = 0; i <= 20; i += 1) meter.take(head(i), i * 100);
  assert.deepEqual(meter.result(), { frames: 21, bytes: 21 * head(0).length, width: 640, height: 480, fps: 10 });
  assert.match(meter.now(2_000), /^640×480 {2}10\.5 frames\/s {2}32 B each {2}21 frames$/);
  assert.match(meter.now(60_000), /^no frame/);
});
