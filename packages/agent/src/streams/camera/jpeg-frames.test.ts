import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { CAMERA_FRAME_BYTES_MAX } from "@roamfleet/protocol/link";
import { cameraRig, jpegByFfmpeg, nextFrame, NO_FFMPEG, sizeOf } from "../../testing/camera-rig.ts";

const LIMIT = { timeout: 120_000, skip: NO_FFMPEG };

/** A camera that serves MJPEG over HTTP, as written by `send`. */
async function httpCamera(send: (response: ServerResponse) => void, status = 200) {
  const authorizations: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    authorizations.push(request.headers.authorization);
    response.writeHead(status, { "content-type": "multipart/x-mixed-replace; boundary=--odd--boundary" });
    send(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    authorizations,
    camera: { name: "web", kind: "mjpeg" as const, url: `http://bob:hunter2@127.0.0.1:${port}/video?key=secret` },
    connections: () => new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count))),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Writes the parts in turn, one every few milliseconds. */
function sendParts(parts: readonly Uint8Array[]): (response: ServerResponse) => void {
  return (response) => {
    let sent = 0;
    const timer = setInterval(() => response.write(parts[sent++ % parts.length]!), 20);
    response.on("close", () => clearInterval(timer));
  };
}

const framed = (jpeg: Buffer, head: string): Buffer => Buffer.concat([Buffer.from(`\r\n----odd--boundary\r\n${head}\r\n\r\n`), jpeg]);

for (const [how, head] of [
  ["with Content-Length", (jpeg: Buffer) => `Content-Type: image/jpeg\r\nContent-Length: ${jpeg.length}`],
  ["without Content-Length", () => "Content-Type: image/jpeg"],
] as const)
  test(`passes MJPEG over HTTP ${how} through unchanged and sends the URL's credentials`, LIMIT, async () => {
    const jpegs = [await jpegByFfmpeg("testsrc2=size=320x240"), await jpegByFfmpeg("color=red:size=64x64")];
    await using web = await httpCamera(sendParts(jpegs.map((jpeg) => framed(jpeg, head(jpeg)))));
    await using rig = await cameraRig([web.camera]);
    const channel = await rig.open();
    const known = new Set(jpegs.map((jpeg) => jpeg.toString("base64")));
    const seen = new Set<string>();
    for (let i = 0; i < 10; i += 1) seen.add(Buffer.from(await nextFrame(channel)).toString("base64"));
    assert.ok(seen.isSubsetOf(known));
    assert.deepEqual(web.authorizations, [`Basic ${Buffer.from("bob:hunter2").toString("base64")}`]);
    channel.close();
    await until("the end of the request", async () => (await web.connections()) === 0);
  });

test("resizes MJPEG over HTTP with ffmpeg without delaying a picture", LIMIT, async () => {
  const jpeg = await jpegByFfmpeg("testsrc2=size=640x480");
  let response: ServerResponse | undefined;
  await using web = await httpCamera((answer) => {
    response = answer;
    answer.write(framed(jpeg, "Content-Type: image/jpeg"));
  });
  await using rig = await cameraRig([web.camera]);
  const channel = await rig.open({ width: 160 });
  assert.equal(await sizeOf(await nextFrame(channel)), "160x120");
  response?.write(framed(jpeg, "Content-Type: image/jpeg"));
  assert.equal(await sizeOf(await nextFrame(channel)), "160x120");
});

test("an HTTP camera that refuses or is unreachable fails with a reason without secrets", LIMIT, async () => {
  await using web = await httpCamera((response) => response.end(), 401);
  await using rig = await cameraRig([web.camera, { name: "gone", kind: "mjpeg", url: "http://a:b@127.0.0.1:1/x?k=secret" }]);
  for (const [camera, why] of [
    ["web", /^http:\/\/127\.0\.0\.1:\d+: returned status 401$/],
    ["gone", /^http:\/\/127\.0\.0\.1:1: .*ECONNREFUSED/],
  ] as const) {
    const channel = await rig.open({ camera });
    assert.equal(await channel.read(), undefined);
    const { code, reason } = await channel.ended;
    assert.equal(code, 4410);
    assert.match(reason, why);
  }
});

test("without ffmpeg, an HTTP camera works only in its original size", LIMIT, async () => {
  const jpeg = await jpegByFfmpeg();
  await using web = await httpCamera(sendParts([framed(jpeg, "Content-Type: image/jpeg")]));
  await using rig = await cameraRig([web.camera], { path: "" });
  assert.deepEqual(Buffer.from(await nextFrame(await rig.open())), jpeg);
  const small = await rig.open({ width: 160 });
  assert.equal(await small.read(), undefined);
  assert.match((await small.ended).reason, /needs ffmpeg, which is not installed/);
});

test("shows a ROS topic of compressed images with any encoding of the bytes", LIMIT, async () => {
  const jpeg = await jpegByFfmpeg();
  await using rig = await cameraRig([{ name: "ros", kind: "ros", topic: "/camera/compressed" }]);
  const channel = await rig.open({ fps: 30 });
  await until("the subscription", () => rig.topics.has("/camera/compressed"));
  const publish = (message: unknown) =>
    rig.topics.get("/camera/compressed")!({ type: "sensor_msgs/msg/CompressedImage", at: new Date(0), message });
  publish({ format: "png", data: Buffer.from("\x89PNG") });
  publish({ data: 3 });
  publish(undefined);
  for (const data of [new Uint8Array(jpeg), jpeg.toString("base64"), Array.from(jpeg)]) {
    publish({ format: "jpeg", data });
    assert.deepEqual(Buffer.from(await nextFrame(channel)), jpeg);
  }
  const large = await jpegByFfmpeg("nullsrc=size=1920x1080,geq=random(1)*255:128:128", 2);
  assert.ok(large.length > CAMERA_FRAME_BYTES_MAX);
  const smaller: Uint8Array[] = [];
  void nextFrame(channel).then((frame) => smaller.push(frame));
  // The camera subscribes to the topic again for ffmpeg.
  await until("a smaller picture", () => {
    rig.topics.get("/camera/compressed")?.({ type: "", at: new Date(0), message: { data: large } });
    return smaller.length > 0;
  });
  assert.ok(smaller[0]!.length <= CAMERA_FRAME_BYTES_MAX);
  channel.close();
  await until("the end of the subscription", () => rig.topics.size === 0);
});
