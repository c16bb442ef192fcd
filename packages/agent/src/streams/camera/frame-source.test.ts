import assert from "node:assert/strict";
import { test } from "node:test";
import { inputArguments, qscaleOf } from "./ffmpeg.ts";
import { type CameraRequest, isUnchanged, LEVELS_COUNT, pictureAt, readCameraRequest, StderrTail, withoutSecrets } from "./frame-source.ts";

const ASKED: CameraRequest = { camera: undefined, fps: 15, width: undefined, height: undefined, quality: undefined };

test("rejects a camera request with an out-of-range value and names the field", () => {
  assert.deepEqual(readCameraRequest({}), ASKED);
  assert.deepEqual(readCameraRequest(undefined), ASKED);
  assert.equal(readCameraRequest({ list: true }), "list");
  assert.deepEqual(readCameraRequest({ camera: "rear", fps: 0.5, width: 320, height: 240, quality: 40 }), {
    camera: "rear",
    fps: 0.5,
    width: 320,
    height: 240,
    quality: 40,
  });
  for (const [name, value] of [
    ["fps", 0],
    ["fps", 31],
    ["fps", "5"],
    ["fps", Number.NaN],
    ["width", 63],
    ["width", 320.5],
    ["width", 1e9],
    ["height", -1],
    ["quality", 101],
    ["quality", null],
    ["camera", 3],
  ] as const) {
    const read = readCameraRequest({ [name]: value });
    assert.ok(typeof read === "object" && "fault" in read && read.fault.startsWith(name), `${name} ${String(value)}`);
  }
});

test("each camera degradation level lowers the quality, and level 0 changes nothing", () => {
  assert.ok(isUnchanged(pictureAt(ASKED, 0)));
  const pictures = Array.from({ length: LEVELS_COUNT }, (_, level) => pictureAt({ ...ASKED, quality: 90 }, level));
  for (let i = 1; i < pictures.length; i += 1) {
    const [better, worse] = [pictures[i - 1]!, pictures[i]!];
    assert.ok(worse.quality! < better.quality! && worse.scale <= better.scale, JSON.stringify(worse));
    assert.ok(!isUnchanged(worse));
  }
  // The requested quality is never exceeded.
  assert.equal(pictureAt({ ...ASKED, quality: 5 }, LEVELS_COUNT - 1).quality, 5);
});

test("maps camera quality 1 to 100 onto ffmpeg's whole quality scale", () => {
  assert.deepEqual([qscaleOf(1), qscaleOf(100)], [31, 2]);
  assert.ok(qscaleOf(80) > qscaleOf(90));
  assert.ok(
    inputArguments(["-i", "x"], pictureAt({ ...ASKED, quality: 100 }, 0))
      .join(" ")
      .includes("-q:v 2 "),
  );
});

test("shortens a program's last error and removes secrets and memory addresses", () => {
  assert.equal(new StderrTail().line, undefined);
  const words = new StderrTail();
  words.push("[rtsp @ 0x5581f0a0] method failed\n");
  words.push("[in#0 @ 0x55aa] rtsp://bob:hunter2@cam.lan:554/live?token=abc#f: Connection refused\n\n");
  assert.equal(words.line, "rtsp://cam.lan:554: Connection refused");
  words.push(`${"x".repeat(10_000)}\n`);
  assert.equal(words.line, "x".repeat(90));
  assert.equal(withoutSecrets("http://a@b:p@ss@host/x 'https://h/?k=1' file"), "http://host 'https://h' file");
});
