import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Channel, readMessage } from "@roamfleet/protocol/link";
import { pino } from "pino";
import type { CameraSource } from "../config-file/robot-config.ts";
import type { RosMessage } from "../ros/adapter.ts";
import { cameraStreams } from "../streams/camera/index.ts";
import { channelPair } from "@roamfleet/protocol/link/testing";

const DEADLINE_MS = 60_000;
const run = promisify(execFile);

/** Why tests cannot use ffmpeg here; false if they can. */
export const NO_FFMPEG: string | false = await run("ffmpeg", ["-version"]).then(
  () => false as const,
  () => "ffmpeg is not installed",
);

/** ffmpeg arguments for a generated (lavfi) input that plays in real time. */
export const lavfi = (source: string): string[] => ["-re", "-f", "lavfi", "-i", source];

/** Returns a JPEG test picture that ffmpeg has encoded. */
export async function jpegByFfmpeg(source = "testsrc2=size=320x240", quality = 5): Promise<Buffer> {
  const args = ["-loglevel", "error", "-f", "lavfi", "-i", source, "-frames:v", "1", "-q:v", String(quality), "-f", "image2pipe", "pipe:1"];
  const { stdout } = await run("ffmpeg", ["-nostdin", ...args], { encoding: "buffer", maxBuffer: 1 << 26 });
  return stdout;
}

/** Returns the width and height of a picture as ffmpeg reads them. Rejects if the picture is broken. */
export async function sizeOf(jpeg: Uint8Array): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "rf-jpeg-"));
  try {
    const file = path.join(directory, "picture.jpg");
    await writeFile(file, jpeg);
    const shown = await run("ffmpeg", ["-nostdin", "-hide_banner", "-xerror", "-err_detect", "explode", "-i", file, "-f", "null", "-"]);
    return /Video: mjpeg.* (\d+x\d+)/.exec(shown.stderr)?.[1] ?? shown.stderr;
  } finally {
    await rm(directory, { recursive: true });
  }
}

export const nextFrame = async (channel: Channel): Promise<Uint8Array> => {
  const late = systemClock.setTimer(DEADLINE_MS, () => channel.reset(1000, "no frame came"));
  const message = await channel.read();
  late.cancel();
  if (message === undefined) assert.fail(`the channel ended: ${JSON.stringify(await channel.ended)}`);
  return readMessage(message).data ?? assert.fail("a frame is data");
};

/**
 * Creates the camera streams of a robot, with a link and without a server. The rig's own directory is first on the PATH of child processes.
 * `haste` divides the waits between attempts.
 */
export async function cameraRig(cameras: CameraSource[], { path: search = process.env.PATH ?? "", haste = 1 } = {}) {
  const directory = await mkdtemp(path.join(tmpdir(), "rf-camera-"));
  const programs = path.join(directory, "bin");
  await mkdir(programs);
  const topics = new Map<string, (message: RosMessage) => void>();
  const pair = channelPair({
    camera: cameraStreams({
      cameras,
      clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / haste, signal) },
      log: pino({ level: "silent" }),
      environment: { PATH: search === "" ? programs : `${programs}:${search}`, RIG: directory },
      ros: {
        subscribe: (topic, _rate, on) => {
          topics.set(topic, on);
          return Promise.resolve(() => void topics.delete(topic));
        },
      },
    }),
  });
  const starts = async (): Promise<number[]> =>
    (await readFile(path.join(directory, "starts"), "utf8").catch(() => "")).split("\n").filter(Boolean).map(Number);
  return {
    directory,
    topics,
    pair,
    open: (params: unknown = {}) => pair.server.open("camera", "camera", params),
    /** Replaces ffmpeg by a shell script, which can call the real one as $FFMPEG. The pid of each start is recorded. */
    async program(lines: string): Promise<void> {
      const real = (await run("sh", ["-c", "command -v ffmpeg || true"])).stdout.trim();
      const file = path.join(programs, "ffmpeg");
      await writeFile(file, `#!/bin/sh\nFFMPEG=${real}\necho $$ >> "$RIG/starts"\n${lines}\n`);
      await chmod(file, 0o755);
    },
    /** Returns the pids of all starts of the script. */
    starts,
    async [Symbol.asyncDispose]() {
      pair.cut("the test is over");
      for (const pid of await starts()) await until(`the end of ${pid}`, () => !isAlive(pid));
      await rm(directory, { recursive: true });
    },
  };
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
