import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { opened } from "../spec/web-socket.ts";

const TIMEOUT = { timeout: 300_000 };
const run = promisify(execFile);
const FFMPEG = await run("sh", ["-c", "command -v ffmpeg"]).then(
  ({ stdout }) => stdout.trim(),
  () => undefined,
);
const skip = FFMPEG === undefined ? "ffmpeg is not installed" : false;
const END = Buffer.from([0xff, 0xd9]).toString("latin1");
const FRAMES = 30;
const hexOf = (frames: readonly (string | Buffer)[]): string[] => frames.map((frame) => Buffer.from(frame).toString("hex"));

/** Returns a directory with an `ffmpeg` wrapper that copies its output to a file, and a PATH that starts with it. */
async function ffmpegWithCopy() {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-ffmpeg-"));
  const copy = path.join(directory, "copy");
  // tee writes to the file first. Therefore the copy contains every frame that a viewer received.
  await writeFile(path.join(directory, "ffmpeg"), `#!/bin/sh\n'${FFMPEG}' "$@" | tee -a /dev/fd/3 3>&1 >>'${copy}' | cat\n`);
  await chmod(path.join(directory, "ffmpeg"), 0o755);
  return {
    PATH: `${directory}:${process.env.PATH}`,
    /** Frames written so far. The end marker of a JPEG occurs nowhere else in ffmpeg's output. */
    frames: async (): Promise<string[]> => {
      const parts = (await readFile(copy)).toString("latin1").split(END).slice(0, -1);
      return parts.map((part) => Buffer.from(part + END, "latin1").toString("hex"));
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

test("each viewer of a camera receives ffmpeg's frames byte for byte and in order", { ...TIMEOUT, skip }, async () => {
  await using ffmpeg = await ffmpegWithCopy();
  await using plane = await startPlane();
  const input = ["-re", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=15"];
  await using robot = await LiveRobot.start(plane, {
    robot: { cameras: [{ name: "front", kind: "ffmpeg", input }] },
    config: { workload_environment: { PATH: ffmpeg.PATH } },
  });
  const url = `${plane.url}/api/robots/${robot.id}/camera/ws?token=${plane.default_org.admin_token}&camera=front`;
  const [one, two] = [await opened(url), await opened(url)];
  await plane.until("frames for both", () => one.frames.length >= FRAMES && two.frames.length >= FRAMES);
  one.ws.close();
  two.ws.close();
  await Promise.all([one.closed, two.closed]);
  const left = await ffmpeg.frames();
  for (const { frames } of [one, two]) {
    const places = hexOf(frames).map((frame) => left.indexOf(frame));
    assert.ok(!places.includes(-1), `each is one of ffmpeg's: ${places.join(" ")}`);
    assert.deepEqual(
      places,
      [...new Set(places)].toSorted((a, b) => a - b),
    );
  }
});

test("a robot with its camera disabled sends no frames, whatever the server requests", TIMEOUT, async () => {
  await using plane = await startPlane();
  const streams = { shell: true, camera: false, topics: true, forward: true, files: true };
  await using robot = await LiveRobot.start(plane, { robot: { cameras: [{ name: "test", kind: "test_picture" }], streams } });
  for (const query of ["", "&camera=test", "&list"]) {
    const refused = await opened(`${plane.url}/api/robots/${robot.id}/camera/ws?token=${plane.default_org.admin_token}${query}`);
    assert.deepEqual(await refused.closed, { code: 4410, reason: "disabled on the robot" });
    assert.deepEqual(refused.frames, []);
  }
});
